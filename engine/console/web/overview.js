// The overview looks again by itself.

import { byId } from './dom.js';

const pause = 10_000; // milliseconds

// load returns a page as a document, whose scripts do not run.
const load = (address) => new Promise((done, failed) => {
  const r = new XMLHttpRequest();
  r.open('GET', address);
  r.responseType = 'document';
  r.onload = () => (r.response?.getElementById('sections') ? done(r.response) : failed(r.status));
  r.onerror = failed;
  r.send();
});

async function look() {
  if (!byId('live')?.checked || document.hidden) return;
  try {
    const page = await load('./');
    byId('sections').replaceWith(document.adoptNode(page.getElementById('sections')));
  } catch { /* the console has ended: what was seen last stays */ }
}

if (!location.search) setInterval(look, pause);
