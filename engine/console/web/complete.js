// Words that are offered while a statement is typed.

import { el, request } from './dom.js';

const pause = 80; // milliseconds after a key

// offerWords shows words for the text before the cursor in a list below it.
export function offerWords(text, list) {
  let typed = '', words = [], chosen = 0, timer, asked = 0;
  const close = () => {
    words = [];
    list.hidden = true;
    text.removeAttribute('aria-activedescendant');
  };
  const take = (i) => {
    const at = text.selectionStart;
    text.setRangeText(words[i].text, at - typed.length, at, 'end');
    close();
    text.focus();
  };
  const show = () => {
    list.replaceChildren(...words.map((w, i) => el('li', { role: 'option', id: `word-${i}`,
      'aria-selected': String(i === chosen),
      mousedown: (e) => { e.preventDefault(); take(i); } }, w.text,
    el('small', {}, w.kind.replace(/s$/, '')))));
    list.hidden = words.length === 0;
    if (list.hidden) return close();
    text.setAttribute('aria-activedescendant', `word-${chosen}`);
    list.children[chosen].scrollIntoView({ block: 'nearest' });
  };
  const ask = async () => {
    const mine = ++asked, at = text.selectionStart;
    const before = text.value.slice(0, at);
    if (!/[\p{L}\p{N}_.]$/u.test(before)) return close();
    try {
      const answer = await request('api/complete', { before, after: text.value.slice(at) });
      if (mine !== asked) return;
      typed = answer.typed;
      const same = (answer.words ?? []).some((w) => w.text === typed);
      words = same ? [] : answer.words ?? [];
      chosen = 0;
      show();
    } catch {
      close();
    }
  };
  // narrow keeps the words that still fit until others come.
  const narrow = () => {
    typed = /[\p{L}\p{N}_]*$/u.exec(text.value.slice(0, text.selectionStart))[0];
    const low = typed.toLowerCase();
    words = low === '' ? [] : words.filter((w) => w.text.toLowerCase().startsWith(low));
    chosen = 0;
    show();
  };
  text.addEventListener('input', () => {
    narrow();
    clearTimeout(timer);
    timer = setTimeout(ask, pause);
  });
  text.addEventListener('blur', () => { clearTimeout(timer); asked++; close(); });
  text.addEventListener('keydown', (e) => {
    if (list.hidden || e.ctrlKey || e.altKey || e.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step) chosen = (chosen + step + words.length) % words.length;
    if (step) show();
    else if (e.key === 'Tab' && !e.shiftKey) take(chosen);
    else if (e.key === 'Escape') close();
    else return;
    e.preventDefault();
  });
  return () => { clearTimeout(timer); asked++; close(); };
}
