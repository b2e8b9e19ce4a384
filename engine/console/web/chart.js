// Charts of values over time, as drawings whose colours are those of the style sheet.

import { el, shape } from './dom.js';

const height = 120, kept = 300, least = 60, axis = 62;

// Chart draws some series of values that are pushed into it.
export class Chart {
  // series are names; write, of a value, is its text, whose units are base times each other.
  constructor(title, series, write, base = 1000) {
    this.base = base;
    this.series = series;
    this.write = write;
    this.all = [];
    this.at = null;
    this.drawing = shape('svg', { class: 'chart', role: 'img', 'aria-label': title });
    this.values = series.map((name, i) => {
      const value = el('b', {}, '–');
      return { value, item: el('li', {}, el('span', { class: `swatch s${i}` }), ` ${name} `, value) };
    });
    this.element = el('figure', {}, el('figcaption', {}, title), this.drawing,
      el('ul', { class: 'legend' }, ...this.values.map((v) => v.item)));
    this.drawing.addEventListener('pointermove', (e) => {
      const box = this.drawing.getBoundingClientRect();
      const part = (e.clientX - box.left - axis) / Math.max(box.width - axis, 1);
      const span = this.span();
      this.at = Math.round(part * (span - 1)) - (span - this.all.length);
      this.draw();
    });
    this.drawing.addEventListener('pointerleave', () => { this.at = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  // push adds the values of a moment; null is not known.
  push(values) {
    this.all.push(values);
    if (this.all.length > kept) this.all.shift();
    this.draw();
  }

  // span returns for how many values there is room.
  span() { return Math.max(this.all.length, least); }

  draw() {
    const width = Math.max(this.drawing.clientWidth, 120);
    const most = round(Math.max(...this.all.flat().filter((v) => v !== null), 0), this.base);
    const span = this.span();
    const x = (i) => axis + (span - this.all.length + i) * (width - axis) / (span - 1);
    const y = (v) => height - 4 - (height - 16) * v / most;
    this.drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const grid = [0, 0.5, 1].map((part) => shape('g', { class: 'axis' },
      shape('line', { x1: axis, x2: width, y1: y(most * part), y2: y(most * part) }),
      shape('text', { x: axis - 6, y: y(most * part) + 4 }, this.write(most * part))));
    const lines = this.series.map((_, s) => shape('polyline', { class: `s${s}`,
      points: this.all.map((values, i) => [x(i), values[s]]).filter(([, v]) => v !== null)
        .map(([px, v]) => `${px.toFixed(1)},${y(v).toFixed(1)}`).join(' ') }));
    const seen = this.at === null ? this.all.length - 1 : this.at;
    const cross = this.at === null || !this.all[seen] ? [] :
      [shape('line', { class: 'cross', x1: x(seen), x2: x(seen), y1: 0, y2: height })];
    this.drawing.replaceChildren(...grid, ...lines, ...cross);
    this.values.forEach(({ value }, s) => {
      const v = this.all[seen]?.[s] ?? null;
      value.textContent = v === null ? '–' : this.write(v);
    });
  }
}

// round returns the next number of 1, 2 or 5 and zeros, of units that are base times each other.
function round(n, base) {
  if (n <= 0) return 1;
  const unit = base ** Math.floor(Math.log(n) / Math.log(base));
  const power = 10 ** Math.floor(Math.log10(n / unit));
  return [1, 2, 5, 10].find((step) => step * power * unit >= n) * power * unit;
}
