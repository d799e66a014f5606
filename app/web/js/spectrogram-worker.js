// Spectrogram tiles, off the main thread: Gaussian window of 10 ms (5 ms effective), 0 to half the sample rate.

const WINDOW = 160;
const SIZE = 256;
const RANGE = 55;

const gauss = new Float32Array(WINDOW);
for (let i = 0; i < WINDOW; i++) gauss[i] = Math.exp(-12 * ((i + 0.5) / WINDOW - 0.5) ** 2);
const cosines = new Float32Array(SIZE / 2);
const sines = new Float32Array(SIZE / 2);
for (let i = 0; i < SIZE / 2; i++) {
  cosines[i] = Math.cos((2 * Math.PI * i) / SIZE);
  sines[i] = Math.sin((2 * Math.PI * i) / SIZE);
}
const reversed = new Uint16Array(SIZE);
for (let i = 0; i < SIZE; i++) for (let bit = 0; bit < 8; bit++) if (i & (1 << bit)) reversed[i] = (reversed[i] ?? 0) | (128 >> bit);

const re = new Float32Array(SIZE);
const im = new Float32Array(SIZE);

/** In-place FFT of `re`, `im`, whose input is in bit-reversed order. */
function transform() {
  for (let half = 1; half < SIZE; half <<= 1) {
    const step = SIZE / 2 / half;
    for (let start = 0; start < SIZE; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const a = start + k;
        const b = a + half;
        const c = /** @type {number} */ (cosines[k * step]);
        const s = /** @type {number} */ (sines[k * step]);
        const x = /** @type {number} */ (re[b]);
        const y = /** @type {number} */ (im[b]);
        const real = x * c + y * s;
        const imaginary = y * c - x * s;
        const p = /** @type {number} */ (re[a]);
        const q = /** @type {number} */ (im[a]);
        re[b] = p - real;
        im[b] = q - imaginary;
        re[a] = p + real;
        im[a] = q + imaginary;
      }
    }
  }
}

/**
 * @param {Int16Array} samples from half a window before the first column to half a window after the last
 * @param {number} columns
 * @param {number} hop
 * @param {number} top dB that is full ink
 * @param {[number, number, number]} paper
 * @param {[number, number, number]} ink
 */
function draw(samples, columns, hop, top, paper, ink) {
  const bins = SIZE / 2;
  const image = new ImageData(columns, bins);
  const pixels = image.data;
  for (let column = 0; column < columns; column++) {
    re.fill(0);
    im.fill(0);
    const begin = Math.round(column * hop);
    let before = samples[begin - 1] ?? 0;
    for (let i = 0; i < WINDOW; i++) {
      const sample = samples[begin + i] ?? 0;
      // A rise of 6 dB an octave, as for the ear: vowels and fricatives are seen at once.
      re[/** @type {number} */ (reversed[i])] = (sample - 0.97 * before) * /** @type {number} */ (gauss[i]);
      before = sample;
    }
    transform();
    for (let bin = 0; bin < bins; bin++) {
      const power = /** @type {number} */ (re[bin]) ** 2 + /** @type {number} */ (im[bin]) ** 2;
      const level = Math.min(1, Math.max(0, 1 + (10 * Math.log10(power + 1e-3) - top) / RANGE));
      const at = 4 * ((bins - 1 - bin) * columns + column);
      const amount = level * level * (3 - 2 * level);
      pixels[at] = paper[0] + (ink[0] - paper[0]) * amount;
      pixels[at + 1] = paper[1] + (ink[1] - paper[1]) * amount;
      pixels[at + 2] = paper[2] + (ink[2] - paper[2]) * amount;
      pixels[at + 3] = 255;
    }
  }
  return image;
}

self.onmessage = async (/** @type {MessageEvent} */ message) => {
  const { key, samples, columns, hop, top, paper, ink } = message.data;
  const bitmap = await createImageBitmap(draw(samples, columns, hop, top, paper, ink));
  /** @type {any} */ (self).postMessage({ key, bitmap }, [bitmap]);
};
