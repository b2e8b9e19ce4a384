// Tables of results, a page at a time.

import { count, el, plural } from './dom.js';

const pageRows = 50;

// cell returns the cell of a value; null is NULL.
function cell(value, column) {
  if (value === null) return el('td', { class: 'null' }, 'NULL');
  return el('td', { class: column.right ? 'n' : null }, value);
}

// grid returns a table of rows; pick, if given, is called with the row that is chosen.
export function grid(columns, rows, caption, pick) {
  const head = columns.map((c) => el('th', { scope: 'col', class: c.right ? 'n' : null }, c.name,
    c.type ? el('small', {}, c.type) : null));
  const lines = rows.map((row) => {
    const cells = columns.map((c, i) => cell(row[i] ?? null, c));
    if (!pick) return el('tr', {}, ...cells);
    const choose = () => pick(row);
    return el('tr', { tabindex: 0, class: 'pick', click: choose,
      keydown: (e) => {
        if (e.key !== 'Enter') return;
        e.preventDefault(); // else the key presses a button of what opens
        choose();
      } }, ...cells);
  });
  return el('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': 'Rows' },
    el('table', { class: 'rows' }, caption ? el('caption', {}, caption) : null,
      el('thead', {}, el('tr', {}, ...head)), el('tbody', {}, ...lines)));
}

// paged returns all rows of a result, a page at a time.
export function paged(columns, rows, more) {
  const box = el('div');
  let at = 0;
  const show = () => {
    const to = Math.min(at + pageRows, rows.length);
    const total = more ? `the first ${count(rows.length)} rows` : plural(rows.length, 'row');
    const caption = rows.length > pageRows ? `${at + 1} to ${to} of ${total}` : total;
    const turn = (by) => () => { at += by; show(); };
    const buttons = rows.length <= pageRows ? null : el('p', { class: 'buttons' },
      el('button', { type: 'button', disabled: at === 0, click: turn(-pageRows) }, 'Back'),
      el('button', { type: 'button', disabled: to === rows.length, click: turn(pageRows) },
        'Further'));
    box.replaceChildren(grid(columns, rows.slice(at, to), caption), ...(buttons ? [buttons] : []));
  };
  show();
  return box;
}
