// The confusion matrix on a canvas: rows true, columns answers. Click or arrow keys and Enter open a cell.
import { SHADES, fillOf } from "../colors.js";
import { number, t } from "../i18n.js";

const CELL = 14;
const EDGE = 52;
const MOST = 80; // labels, the most frequent ones
const FONT = '"Noto Sans Phones", "Noto Sans", system-ui, sans-serif';

export class Matrix {
  /**
   * @param {{labels: string[], confusion_matrix: number[][]}} found
   * @param {(truth: string, answer: string) => void} open
   */
  constructor(found, open) {
    const matrix = found.confusion_matrix;
    const weight = found.labels.map((_, i) => matrix.reduce((sum, row, k) => sum + (row[i] ?? 0) + (k === i ? row.reduce((a, b) => a + b, 0) : 0), 0));
    const used = found.labels.map((_, i) => i).filter((i) => (weight[i] ?? 0) > 0);
    const kept = new Set([...used].sort((a, b) => (weight[b] ?? 0) - (weight[a] ?? 0)).slice(0, MOST));
    this.order = used.filter((i) => kept.has(i));
    this.labels = this.order.map((i) => found.labels[i] ?? "");
    this.counts = this.order.map((i) => this.order.map((j) => matrix[i]?.[j] ?? 0));
    this.open = open;
    this.at = { row: 0, column: 0 };
    this.size = EDGE + CELL * this.labels.length + 1;
    this.canvas = /** @type {HTMLCanvasElement} */ (document.createElement("canvas"));
    this.canvas.className = "matrix";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-roledescription", t("eval.matrix"));
    this.canvas.style.width = this.canvas.style.height = `${this.size}px`;
    this.#listen();
    requestAnimationFrame(() => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.#say();
  }

  #listen() {
    const { canvas } = this;
    const cellAt = (/** @type {MouseEvent} */ event) => {
      const box = canvas.getBoundingClientRect();
      const [column, row] = [Math.floor((event.clientX - box.left - EDGE) / CELL), Math.floor((event.clientY - box.top - EDGE) / CELL)];
      return row >= 0 && column >= 0 && row < this.labels.length && column < this.labels.length ? { row, column } : null;
    };
    canvas.addEventListener("mousemove", (event) => {
      const at = cellAt(event);
      canvas.title = at ? this.words(at) : "";
    });
    canvas.addEventListener("click", (event) => {
      const at = cellAt(event);
      if (!at) return;
      this.#move(at);
      this.#enter();
    });
    canvas.addEventListener("keydown", (event) => {
      const { row, column } = this.at;
      const last = this.labels.length - 1;
      if (event.key === "ArrowLeft") this.#move({ row, column: Math.max(0, column - 1) });
      else if (event.key === "ArrowRight") this.#move({ row, column: Math.min(last, column + 1) });
      else if (event.key === "ArrowUp") this.#move({ row: Math.max(0, row - 1), column });
      else if (event.key === "ArrowDown") this.#move({ row: Math.min(last, row + 1), column });
      else if (event.key === "Enter" || event.key === " ") this.#enter();
      else return;
      event.preventDefault();
    });
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => this.draw());
  }

  /** @param {{row: number, column: number}} at */
  #move(at) {
    this.at = at;
    this.#say();
    this.draw();
  }

  #enter() {
    const { row, column } = this.at;
    if ((this.counts[row]?.[column] ?? 0) > 0) this.open(this.labels[row] ?? "", this.labels[column] ?? "");
  }

  #say() {
    this.canvas.setAttribute("aria-label", this.words(this.at));
  }

  /** @param {{row: number, column: number}} at */
  words({ row, column }) {
    const total = (this.counts[row] ?? []).reduce((a, b) => a + b, 0);
    const count = this.counts[row]?.[column] ?? 0;
    return t("eval.cell.words", { truth: this.labels[row] ?? "", answer: this.labels[column] ?? "", count: number(count), share: total > 0 ? ((100 * count) / total).toFixed(1) : "0" });
  }

  draw() {
    const scale = devicePixelRatio || 1;
    const { canvas, size, labels } = this;
    canvas.width = canvas.height = Math.round(size * scale);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const style = getComputedStyle(canvas);
    const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = read("--raised");
    context.fillRect(0, 0, size, size);
    context.font = `10px ${FONT}`;
    context.fillStyle = read("--ink");
    context.textBaseline = "middle";
    labels.forEach((label, i) => {
      const text = label.length > 7 ? `${label.slice(0, 6)}…` : label;
      context.textAlign = "right";
      context.fillText(text, EDGE - 4, EDGE + CELL * (i + 0.5));
      context.save();
      context.translate(EDGE + CELL * (i + 0.5), EDGE - 4);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
      context.restore();
    });
    this.counts.forEach((row, i) => {
      const total = row.reduce((a, b) => a + b, 0);
      row.forEach((count, j) => {
        if (count === 0) return;
        // The square root of the share, so that rare confusions are seen; the rarest end of the scale is left out.
        context.fillStyle = fillOf(Math.round((SHADES - 1) * (0.06 + 0.94 * Math.sqrt(count / total))));
        context.fillRect(EDGE + CELL * j, EDGE + CELL * i, CELL - 1, CELL - 1);
      });
    });
    context.strokeStyle = read("--line");
    context.strokeRect(EDGE - 0.5, EDGE - 0.5, CELL * labels.length + 0.5, CELL * labels.length + 0.5);
    if (document.activeElement === canvas) {
      context.strokeStyle = read("--accent");
      context.lineWidth = 2;
      context.strokeRect(EDGE + CELL * this.at.column - 0.5, EDGE + CELL * this.at.row - 0.5, CELL, CELL);
    }
  }
}
