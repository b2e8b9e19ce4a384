// The page of metrics: charts, and what changes, every second.

import { Chart } from './chart.js';
import { byId, bytes, count, request, seconds, short } from './dom.js';
import { load } from './load.js';

const pause = 1000; // milliseconds
const changesEach = 2; // samples

const metric = (name) => (now) => now.metrics[`kstone_${name}`];
// rate returns what a counter has grown by in a second.
const rate = (name) => (now, before, time) =>
  before ? Math.max(now.metrics[`kstone_${name}`] - before.metrics[`kstone_${name}`], 0) / time : null;
// part returns the percentage of one counter's growth in that of two.
const part = (hit, miss) => (now, before) => {
  if (!before) return null;
  const [h, m] = [hit, miss].map((n) => rate(n)(now, before, 1));
  return h + m > 0 ? 100 * h / (h + m) : null;
};
const version = (now, before, time) => before ? (now.version - before.version) / time : null;
const each = (n) => `${short(n)}/s`;
const bytesEach = (n) => `${bytes(n)}/s`;
const percent = (n) => `${short(n)} %`;

// own are the charts of what only the process that writes has; others are of the database or of
// any process.
const own = [
  ['Operations written', each, ['operations', rate('operations_total')],
    ['conflicts', rate('conflicts_total')]],
  ['Latency of writes', seconds, ['median', metric('write_latency_seconds_0.5')],
    ['99 %', metric('write_latency_seconds_0.99')]],
  ['Stalls: time of waits', (n) => `${seconds(n)}/s`, ['waits', rate('stall_seconds_total')]],
  ['Written to files', bytesEach, ['flushes', rate('flushed_bytes_total')],
    ['merges', rate('compaction_written_bytes_total')]],
];

const charts = [
  ['Commits', each, ['commits', version]],
  ['Reads', each, ['gets', rate('gets_total')], ['queries', rate('queries_total')],
    ['scans', rate('scans_total')]],
  ['Latency of reads', seconds, ['median', metric('read_latency_seconds_0.5')],
    ['99 %', metric('read_latency_seconds_0.99')]],
  ['Memory', bytes, ['write buffers', metric('memtable_bytes')], ['cache', metric('cache_bytes')]],
  ['Disk', bytes, ['data files', metric('disk_bytes')], ['log', metric('log_bytes')]],
  ['Blocks found in the cache', percent, ['hits', part('block_hits_total', 'block_misses_total')]],
  ...('reader' in (byId('charts')?.dataset ?? {}) ? [] : own),
].map(([title, write, ...series]) => {
  const base = write === bytes || write === bytesEach ? 1024 : 1000;
  const chart = new Chart(title, series.map(([name]) => name), write, base);
  byId('charts')?.append(chart.element);
  return { chart, values: series.map(([, value]) => value) };
});

let before = null, looks = 0;

function show(now) {
  const time = before ? (Date.parse(now.time) - Date.parse(before.time)) / 1000 : 0;
  for (const { chart, values } of charts) {
    chart.push(values.map((value) => value(now, time > 0 ? before : null, time) ?? null));
  }
  for (const cell of document.querySelectorAll('[data-metric]')) {
    const value = now.metrics[cell.dataset.metric];
    cell.textContent = Number.isInteger(value) ? count(value) : String(Number(value.toPrecision(4)));
  }
  before = now;
}

async function changes() {
  const old = byId('changes');
  const page = await load(`./metrics?since=${old.dataset.version}`, 'changes');
  old.replaceWith(page);
}

async function look() {
  if (byId('live').checked && !document.hidden) {
    try {
      const now = await request('api/live');
      byId('state').textContent = now.problem ?? '';
      show(now);
      if (looks++ % changesEach === 0) await changes();
    } catch {
      byId('state').textContent = 'the console does not answer';
      before = null;
    }
  }
  setTimeout(look, pause);
}

if (byId('charts')) look();
