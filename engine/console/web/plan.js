// A plan as a drawing: a box for each step, the steps that it reads from below it.

import { el, plural, short } from './dom.js';

// farOff is from which factor on an estimate is shown as wrong.
const farOff = 10;

const time = (ns) => ns >= 1e6 ? `${(ns / 1e6).toPrecision(3)} ms` : `${Math.round(ns / 1e3)} µs`;

// own returns the time that a step took without those below it.
function own(step) {
  const below = (step.children ?? []).reduce((sum, c) => sum + (c.actual?.Time ?? 0), 0);
  return Math.max((step.actual?.Time ?? 0) - below, 0);
}

// bar returns a bar of a part of all.
function bar(part, name) {
  const inner = el('i');
  inner.style.width = `${Math.max(Math.min(part, 1) * 100, 0.5).toFixed(1)}%`;
  return el('div', { class: `bar ${name}`, 'aria-hidden': 'true' }, inner);
}

// figures returns what is measured of a step. Below a limit, which ends the steps that it reads
// from, fewer rows than expected are nothing to look at.
function figures(step, most, whole, limited) {
  const a = step.actual;
  const line = (name, value, part, kind) => el('div', { class: 'measure' }, el('span', {}, name),
    bar(part, kind), el('span', { class: 'n' }, value));
  const lines = [line('expected', `${short(step.rows)} rows`, step.rows / most, 'expected')];
  if (!a) return lines;
  lines.push(line('actual', plural(a.Rows, 'row'), a.Rows / most, 'actual'));
  lines.push(line('time', time(own(step)), own(step) / whole, 'time'));
  const rows = a.Rows / Math.max(a.Loops, 1);
  const factor = Math.max(rows, step.rows, 1) / Math.max(Math.min(rows, step.rows), 1);
  const way = rows > step.rows ? 'more' : 'fewer';
  if (factor >= farOff && !(limited && way === 'fewer')) {
    lines.push(el('p', { class: 'off' }, `${short(factor)} times ${way} rows than expected`));
  }
  const read = [['key', a.Keys], ['seek', a.Seeks], ['loop', a.Loops > 1 ? a.Loops : 0],
    ['block', a.Blocks?.Read], ['skipped block', a.Blocks?.Skipped],
    ['spilled byte', a.Spilled], ['worker', a.Workers > 1 ? a.Workers : 0]]
    .filter(([, n]) => n > 0).map(([name, n]) => plural(n, name));
  if (read.length > 0) lines.push(el('p', { class: 'soft' }, read.join(', ')));
  return lines;
}

function node(step, most, whole, limited) {
  const attributes = (step.attributes ?? []).map((a) => el('li', {},
    a.value ? `${a.name}: ` : a.name, a.value ? el('b', {}, a.value) : null));
  const below = step.children ?? [];
  const limits = limited || step.operator === 'limit';
  return el('li', {},
    el('div', { class: 'step' }, el('h4', {}, step.operator),
      attributes.length > 0 ? el('ul', { class: 'attributes' }, ...attributes) : null,
      ...figures(step, most, whole, limited)),
    below.length > 0 ? el('ul', {}, ...below.map((c) => node(c, most, whole, limits))) : null);
}

// drawing returns the drawing of a plan.
export function drawing(plan) {
  const each = (step, f) => { f(step); (step.children ?? []).forEach((c) => each(c, f)); };
  let most = 1, whole = 1;
  each(plan, (s) => {
    most = Math.max(most, s.rows, s.actual?.Rows ?? 0);
    whole = Math.max(whole, own(s));
  });
  const notes = (plan.notes ?? []).map((text) => el('p', { class: 'soft' }, text));
  return el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Plan' },
    el('ul', { class: 'plan' }, node(plan, most, whole, false)), ...notes);
}
