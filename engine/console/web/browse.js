// The browser of tables and items. Pages are found by cursors, so that the last is as near as the
// first.

import { byId, bytes, count, el, plural, request } from './dom.js';
import { grid } from './table.js';

const of = byId('of'), state = byId('state'), results = byId('results');
const back = byId('back'), further = byId('further'), conditions = byId('conditions');
let columns = [];   // of the table
let before = [];    // cursors of the pages before
let here = null;    // cursor of the page
let next = null;    // cursor of the page after
let asked = 0;

const isTable = () => of.value !== '';
const table = () => of.value.slice(1);
const itemColumns = [{ name: 'partition key' }, { name: 'sort key' }, { name: 'value' },
  { name: 'bytes', right: true }, { name: 'expires' }, { name: 'version', right: true }];

// condition adds the fields of a filter.
function condition() {
  const value = el('input', { 'aria-label': 'Value', autocomplete: 'off', spellcheck: 'false' });
  const op = el('select', { 'aria-label': 'Operator',
    change: () => { value.hidden = op.value.endsWith('NULL'); } },
  byId('operators').content.cloneNode(true));
  const line = el('p', { class: 'buttons condition' },
    el('select', { 'aria-label': 'Column' }, ...columns.map((c) => el('option', {}, c.name))), op,
    value, el('button', { type: 'button', click: () => line.remove() }, 'Remove'));
  conditions.append(line);
  return line;
}

// filters returns those of the form.
const filters = () => Array.from(conditions.children, (line) => {
  const [column, op, value] = line.querySelectorAll('select, input');
  return { column: column.value, op: op.value, value: value.value };
});

// whole shows all of a row.
function whole(names, row) {
  const box = byId('one');
  const terms = names.flatMap((c, i) => [el('dt', {}, c.name), el('dd', {},
    el('pre', { class: row[i] == null ? 'null' : null }, pretty(row[i])))]);
  box.querySelector('div').replaceChildren(el('dl', {}, ...terms));
  box.showModal();
}

// pretty returns JSON on lines of its own, and other values as they are.
function pretty(value) {
  if (value == null) return 'NULL';
  if (!/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}

async function page(after) {
  const limit = Number(byId('limit').value);
  if (isTable()) {
    const answer = await request('api/rows', { table: table(), filters: filters(), after, limit });
    return { names: answer.columns, rows: answer.rows, next: answer.next, note: '' };
  }
  const answer = await request('api/items', { pk: byId('pk').value, prefix: byId('prefix').checked,
    sk: byId('sk').value, text: byId('text').value, after: after ?? '', limit });
  const rows = answer.items.map((i) => [i.pk, i.sk, i.value, bytes(i.bytes), i.expires ?? '',
    String(i.version)]);
  const note = answer.looked > rows.length ? `, of ${count(answer.looked)} looked at` : '';
  return { names: itemColumns, rows, next: answer.next, note };
}

// show shows the page after a cursor.
async function show(after) {
  const mine = ++asked;
  state.textContent = 'reading …';
  try {
    const p = await page(after);
    if (mine !== asked) return;
    here = after;
    next = p.next ?? null;
    if (isTable()) columns = p.names;
    const caption = plural(p.rows.length, isTable() ? 'row' : 'item') + p.note +
      (next ? '; there are more' : '');
    results.replaceChildren(grid(p.names, p.rows, caption, (row) => whole(p.names, row)));
    state.textContent = before.length > 0 ? `page ${before.length + 1}` : '';
  } catch (error) {
    if (mine !== asked) return;
    next = null;
    results.replaceChildren(el('p', { class: 'problem', role: 'alert' }, error.message));
    state.textContent = '';
  }
  back.disabled = before.length === 0;
  further.disabled = next === null;
}

function start() {
  before = [];
  show(null);
}

function choose() {
  byId('filters').hidden = !isTable();
  byId('keys').hidden = isTable();
  conditions.replaceChildren();
  start();
}

byId('browse').addEventListener('submit', (e) => { e.preventDefault(); start(); });
byId('more').addEventListener('click', () => condition().querySelector('select').focus());
of.addEventListener('change', choose);
byId('limit').addEventListener('change', start);
further.addEventListener('click', () => { before.push(here); show(next); });
back.addEventListener('click', () => show(before.pop()));
if (of.options.length > 1) of.selectedIndex = 1;
choose();
