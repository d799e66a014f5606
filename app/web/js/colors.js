// Certainty as colour: cividis (Nunez, Anderton, Renslow 2018), which people with any colour vision read in one order.

const STOPS = [
  [0, 34, 78], [8, 48, 111], [53, 69, 108], [79, 89, 107], [102, 109, 112],
  [125, 129, 120], [149, 150, 119], [175, 171, 110], [203, 194, 95], [231, 219, 78], [254, 232, 56],
];

/** Number of shades. */
export const SHADES = 64;
/** @type {string[]} */
const FILLS = [];
/** @type {boolean[]} */
const DARK = [];
for (let i = 0; i < SHADES; i++) {
  const at = (i / (SHADES - 1)) * (STOPS.length - 1);
  const low = STOPS[Math.floor(at)] ?? [0, 0, 0];
  const high = STOPS[Math.ceil(at)] ?? low;
  const rgb = low.map((value, channel) => Math.round(value + ((high[channel] ?? 0) - value) * (at % 1)));
  const [r = 0, g = 0, b = 0] = rgb.map((value) => {
    const s = value / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  FILLS.push(`rgb(${rgb.join(",")})`);
  DARK.push(0.2126 * r + 0.7152 * g + 0.0722 * b < 0.179);
}

/**
 * The shade of a posterior, -1 where there is none.
 * @param {number | null | undefined} p
 */
export function shade(p) {
  return p === null || p === undefined || Number.isNaN(p) ? -1 : Math.min(SHADES - 1, Math.max(0, Math.round(p * (SHADES - 1))));
}

/** @param {number} index */
export function fillOf(index) {
  return FILLS[index] ?? "transparent";
}

/**
 * The colour of text on a shade.
 * @param {number} index
 */
export function inkOn(index) {
  return DARK[index] ? "#fff" : "#000";
}

/** The scale as a CSS gradient, uncertain to certain. */
export function gradient() {
  return `linear-gradient(90deg, ${FILLS.filter((_, i) => i % 7 === 0).join(", ")})`;
}
