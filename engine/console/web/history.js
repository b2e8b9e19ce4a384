// Earlier statements, which are kept in this browser.

import { el } from './dom.js';

const most = 100;

// History is the list of the statements that were run, the newest first.
export class History {
  constructor(name) {
    this.key = `kstone ${name}`;
    this.at = -1;
    try {
      const stored = JSON.parse(localStorage.getItem(this.key) ?? '[]');
      this.all = Array.isArray(stored) ? stored.filter((s) => typeof s === 'string') : [];
    } catch {
      this.all = [];
    }
  }

  add(text) {
    this.all = [text, ...this.all.filter((t) => t !== text)].slice(0, most);
    this.at = -1;
    this.store();
  }

  forget() {
    this.all = [];
    this.at = -1;
    this.store();
  }

  // step returns the statement before or after the one that was returned last.
  step(by) {
    this.at = Math.max(-1, Math.min(this.at + by, this.all.length - 1));
    return this.at < 0 ? '' : this.all[this.at];
  }

  // show fills a list with buttons; take is called with the statement that is chosen.
  show(list, take) {
    list.replaceChildren(...this.all.map((text) => el('li', {},
      el('button', { type: 'button', class: 'statement', click: () => take(text) }, text))));
  }

  store() {
    try {
      localStorage.setItem(this.key, JSON.stringify(this.all));
    } catch { /* it is full or not allowed: the history lasts as long as the page */ }
  }
}
