// The page on which statements are run.

import { offerWords } from './complete.js';
import { byId, el, plural, request, seconds } from './dom.js';
import { History } from './history.js';
import { drawing } from './plan.js';
import { paged } from './table.js';

const text = byId('sql'), state = byId('state'), stop = byId('stop'), results = byId('results');
const list = byId('history').querySelector('ol');
const history = new History(document.body.dataset.name);
let running = null;

const closeWords = offerWords(text, byId('words'));

// put makes a statement the one that is edited.
function put(statement) {
  text.value = statement;
  text.focus();
}

// problem returns what is wrong and where; a click leads there.
function problem(error) {
  const box = el('div', { class: 'problem', role: 'alert' }, el('p', {}, error.message));
  if (!error.line) return box;
  const before = text.value.split('\n').slice(0, error.line - 1).join('\n');
  const at = before.length + (error.line > 1 ? 1 : 0);
  const place = at + Array.from(text.value.slice(at)).slice(0, error.column - 1).join('').length;
  const go = () => { text.focus(); text.setSelectionRange(place, place + 1); };
  box.append(el('pre', {}, error.excerpt), el('button', { type: 'button', click: go },
    `To line ${error.line}, column ${error.column}`));
  return box;
}

// shown returns what a statement has done.
function shown(s) {
  const took = seconds(s.millis / 1000);
  if (s.error) return problem(s.error);
  if (s.plan) return el('section', {}, el('p', { class: 'soft' }, took), drawing(s.plan));
  if (s.done) return el('p', { class: 'done' }, `${s.verb}: ${s.done}, ${took}`);
  const box = el('section', {}, el('p', { class: 'soft' }, took));
  if (s.more) {
    box.append(el('p', { class: 'off' },
      `There are more than ${plural(s.rows.length, 'row')}: WHERE or LIMIT makes them fewer.`));
  }
  box.append(paged(s.columns ?? [], s.rows ?? [], s.more));
  return box;
}

async function run(explain) {
  const statement = text.value.trim();
  if (!statement || running) return;
  closeWords();
  running = new AbortController();
  stop.disabled = false;
  state.textContent = 'running …';
  try {
    const answer = await request('api/query', { sql: text.value, explain }, running.signal);
    const all = answer.error ? [problem(answer.error)] : (answer.statements ?? []).map(shown);
    results.replaceChildren(...all);
    state.textContent = '';
  } catch (error) {
    const stopped = error.name === 'AbortError';
    state.textContent = stopped ? 'stopped' : '';
    if (!stopped) results.replaceChildren(problem(error));
  }
  running = null;
  stop.disabled = true;
  history.add(statement);
  history.show(list, put);
}

byId('query').addEventListener('submit', (e) => { e.preventDefault(); run(false); });
byId('explain').addEventListener('click', () => run(true));
stop.addEventListener('click', () => running?.abort());
byId('forget').addEventListener('click', () => { history.forget(); history.show(list, put); });
text.addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
    e.preventDefault();
    run(e.shiftKey);
  }
  const by = { ArrowUp: 1, ArrowDown: -1 }[e.key];
  if (by && e.altKey) {
    e.preventDefault();
    put(history.step(by));
  }
});
history.show(list, put);
text.focus();
