// The overview looks again by itself.

import { byId } from './dom.js';
import { load } from './load.js';

const pause = 10_000; // milliseconds

async function look() {
  if (!byId('live')?.checked || document.hidden) return;
  try {
    const page = await load('./', 'sections');
    byId('sections').replaceWith(page);
  } catch { /* the console has ended: what was seen last stays */ }
}

if (!location.search) setInterval(look, pause);
