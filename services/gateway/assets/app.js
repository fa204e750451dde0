// What the pages do beyond forms and links. Text from elsewhere only ever becomes textContent; markup comes from our
// own server through htmx, which checks each answer's nonce. With scripts off every page still works.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const later = (work, ms) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(work, ms); }; };
const fetchPart = (path, target, swap) => window.htmx.ajax('GET', path, { source: target, target, swap }).catch(() => {});

// --- Time: what is left on cards, and clocks in the reader's own zone.

const ends = new WeakMap();
function words(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${String(seconds % 60).padStart(2, '0')}`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} days`;
}

function tick() {
  for (const left of $$('[data-left]')) {
    const said = left.dataset.left;
    if (ends.get(left)?.said !== said) ends.set(left, { said, end: performance.now() + said * 1000 });
    const seconds = Math.max(0, Math.ceil((ends.get(left).end - performance.now()) / 1000));
    left.textContent = words(seconds);
    left.parentElement.classList.toggle('soon', seconds < 60);
    const card = left.closest('[data-gate]');
    $('progress', card).value = seconds;
    if (seconds === 0 && !card.dataset.over) {
      card.dataset.over = 'yes';
      setTimeout(() => refresh(card.dataset.gate), 1500);
    }
  }
}

function clocks() {
  for (const time of $$('time[datetime]')) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(+at)) continue;
    const day = at.toDateString() === new Date().toDateString() ? {} : { day: 'numeric', month: 'short' };
    time.textContent = at.toLocaleString(document.documentElement.lang, { ...day, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
  }
}

// --- The whole thing before the approval: Approve wakes when the end was in view.

const seen = new Set();
const version = (card) => `${card.dataset.gate} ${$('[name=args_digest]', card)?.value}`;
const watcher = new IntersectionObserver((entries) => {
  for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
    seen.add(version(target.closest('[data-gate]')));
    watcher.unobserve(target);
    $$('[data-approve]').forEach(gateApprove);
  }
});

function gateApprove(button) {
  const card = button.closest('[data-gate]');
  const whole = $('[data-whole]', card);
  const asleep = whole.scrollHeight > whole.clientHeight + 2 && !seen.has(version(card));
  button.disabled = asleep || moved.get(button) > performance.now();
  $('[data-hint]', card).hidden = !asleep;
  if (asleep) watcher.observe($('[data-end]', card));
}

// --- Nothing moves under a pressed pointer, and an Approve that came or moved by itself rests before it can be hit.

const moved = new WeakMap();
const place = (button) => { const { x, y } = button.getBoundingClientRect(); return `${Math.round(x)} ${Math.round(y)}`; };
const places = () => new Map($$('[data-approve]').map((button) => [button, place(button)]));
function rest(before) {
  // By keyboard there is nothing to miss, and a button that sleeps would lose its focus.
  const fresh = $$('[data-approve]').filter((button) => before.get(button) !== place(button) && button !== document.activeElement);
  for (const button of fresh) moved.set(button, performance.now() + 400);
  if (fresh.length) setTimeout(() => $$('[data-approve]').forEach(gateApprove), 410);
}

let [pressed, held, standing] = [false, false, new Map()];
function release() {
  pressed = false;
  // After the click that this press may become.
  if (held) setTimeout(catchUp);
  held = false;
}
addEventListener('pointerdown', () => { pressed = true; }, true);
for (const name of ['pointerup', 'pointercancel', 'blur']) addEventListener(name, release, true);
addEventListener('pointermove', (event) => { if (pressed && !event.buttons) release(); }, true);

function wake() {
  clocks();
  $$('[data-approve]').forEach(gateApprove);
  tick();
}

// --- Counts, announcements, and cards that wait above.

const title = document.title;
const waiting = () => fetch('/ui/count', { headers: { accept: 'application/json' } }).then((answer) => (answer.ok ? answer.json() : {})).catch(() => ({}));
const recount = later(async () => {
  const { pending } = await waiting();
  if (pending === undefined) return;
  $$('[data-count]').forEach((count) => { count.textContent = pending; count.hidden = pending === 0; });
  document.title = pending ? `(${pending}) ${title}` : title;
}, 80);

const announce = (card) => { $('#announce').textContent = `A new approval is waiting: ${card ? $('.headline', card).textContent : 'look in Approvals.'}`; };

function notice(words) {
  $('#notice').textContent = words;
  setTimeout(() => { $('#notice').textContent = ''; }, 8000);
}

// New cards wait in a hidden pen above the inbox until they are asked for, unless nothing else is there to move.
function settlePen(wanted) {
  const [pen, inbox, button] = [$('#pen'), $('#inbox'), $('#fresh')];
  if (!pen) return;
  if (wanted || !$('[data-state=waiting]', inbox)) inbox.prepend(...pen.children);
  button.hidden = !pen.children.length;
  button.textContent = `${pen.children.length} new`;
  wake();
}

// --- Live: one stream of events for the page.

const shown = (gate, root = document) => $$('[data-gate]', root).filter((card) => card.dataset.gate === gate);
const part = (gate, place) => `/ui/gates/${encodeURIComponent(gate)}?place=${encodeURIComponent(place)}`;
const refresh = (gate) => Promise.all(shown(gate).map((card) => fetchPart(part(gate, card.dataset.place), card, 'outerMorph')));

async function onGate({ gate_id: gate, thread_id: thread, state }) {
  recount();
  const here = $('[data-thread]')?.dataset.thread === thread;
  if (here) refetchMessages();
  await refresh(gate);
  if (state !== 'pending') return;
  const home = here ? $('#side') : $('#pen');
  if (!home) return announce();
  if (shown(gate, here ? home : document).length) return;
  await fetchPart(part(gate, here ? 'side' : ''), home, here ? 'beforeend' : 'afterbegin');
  shown(gate, home).forEach(announce);
  settlePen();
}

const atEnd = () => innerHeight + scrollY > document.documentElement.scrollHeight - 120;
function toEnd() {
  const before = places();
  scrollTo({ top: document.documentElement.scrollHeight });
  rest(before);
}

const refetchMessages = later(async () => {
  const [thread, stay] = [$('[data-thread]')?.dataset.thread, !atEnd()];
  if (!thread) return;
  await fetchPart(`/ui/threads/${encodeURIComponent(thread)}/messages`, $('#messages'), 'innerMorph');
  if (!stay) toEnd();
}, 60);

function stream({ turn_id: turn, text, anew }) {
  const [running, body, stay] = [$('#running'), $('#running .body'), !atEnd()];
  if (anew || running.dataset.running !== turn) body.textContent = '';
  running.dataset.running = turn;
  body.append(text);
  running.hidden = false;
  if (!stay) toEnd();
}

function hush() {
  $('#running').hidden = true;
  $('#running .body').textContent = '';
}

const mine = (data) => data.thread_id && $('[data-thread]')?.dataset.thread === data.thread_id;

// What happened between the page's making and its first event, or while the stream was cut, is asked for.
const catchUp = later(async () => {
  new Set($$('[data-gate]').map((card) => card.dataset.gate)).forEach(refresh);
  refetchMessages();
  const news = (gate) => !shown(gate.gate_id).length && ($('#pen') || mine(gate));
  (await waiting()).gates?.filter(news).forEach(on.gate);
  recount();
}, 60);

let queue = Promise.resolve();
const on = {
  gate(data) { queue = queue.then(() => onGate(data)).catch(() => {}); },
  delta(data) { if (mine(data)) stream(data); },
  message(data) { if (mine(data)) { if (data.kind === 'reply') hush(); refetchMessages(); } },
  turn(data) { if (mine(data)) { if (!['open', 'running'].includes(data.state)) hush(); refetchMessages(); } },
  output({ call_id: call, text }) { $$('[data-output]').filter((output) => output.dataset.output === call).forEach((output) => output.append(text)); },
  again: catchUp,
};

// Browsers allow six connections to a server, so one tab listens and tells the others.
const tabs = new BroadcastChannel('kazma');
tabs.onmessage = ({ data: [name, data] }) => on[name]?.(data);
const tell = (name, data) => { on[name](data); tabs.postMessage([name, data]); };
let leave;
function listen() {
  const lead = () => new Promise((left) => {
    let source;
    const open = () => {
      source = new EventSource(document.body.dataset.live);
      source.addEventListener('open', () => tell('again'));
      const reopen = (ms) => { source.close(); setTimeout(() => leave && open(), ms); };
      for (const name in on) source.addEventListener(name, (event) => tell(name, JSON.parse(event.data)));
      source.addEventListener('end', () => reopen(1000));
      source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) reopen(5000); });
    };
    leave = () => { leave = null; source.close(); left(); };
    open();
  });
  if (navigator.locks) navigator.locks.request('kazma-live', lead); else lead();
  catchUp();
}

// --- What htmx swaps.

document.addEventListener('htmx:before:swap', (event) => {
  const { ctx } = event.detail;
  standing = places();
  if (pressed && ctx.request?.method !== 'POST') {
    held = true;
    event.preventDefault();
    return;
  }
  const card = /^\/(ui\/)?gates\//.test(ctx.request?.action ?? '');
  const fits = card ? ctx.text.includes('data-gate=') : ctx.response?.status < 400;
  if (!fits) event.preventDefault();
  if (!fits && ctx.request.method === 'POST') notice('This was not recorded. Reload the page and look again.');
});

document.addEventListener('htmx:after:swap', (event) => {
  const { ctx } = event.detail;
  rest(standing);
  wake();
  if (ctx.request?.method !== 'POST') return;
  const gate = /^\/gates\/([^/]+)\/decision/.exec(ctx.request.action)?.[1];
  if (gate) $('.headline', ctx.target)?.focus();
  else if (ctx.sourceElement?.id === 'composer') {
    ctx.sourceElement.reset();
    $('[name=idempotency_key]', ctx.sourceElement).value = crypto.getRandomValues(new Uint32Array(4)).join('-');
    toEnd();
  }
});

document.addEventListener('htmx:error', (event) => {
  if (event.detail.ctx?.request?.method === 'POST') notice('Kazma did not answer. Reload to see whether this was recorded.');
});

// --- Small things.

document.addEventListener('click', (event) => {
  const [fill, text] = [event.target.closest?.('[data-fill]'), $('#text')];
  if (fill && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    text.value = fill.dataset.fill;
    text.focus();
  } else if (event.target.closest?.('#fresh')) {
    settlePen(true);
    $('#inbox .headline').focus();
  }
});

// Enter sends a message where a keyboard is at hand. Nothing on a card listens to keys.
document.addEventListener('keydown', (event) => {
  const { key, shiftKey, isComposing, target } = event;
  if (key !== 'Enter' || shiftKey || isComposing || target.id !== 'text' || !matchMedia('(pointer: fine)').matches) return;
  event.preventDefault();
  if (target.value.trim()) target.form.requestSubmit();
});

const [link, token] = [$('#link'), /[#&]token=([^&]+)/.exec(location.hash)?.[1]];
if (link && token) {
  history.replaceState(null, '', location.pathname + location.search);
  $('[name=token]', link).value = decodeURIComponent(token);
  link.submit();
}

wake();
setInterval(tick, 1000);
if (document.body.dataset.live) {
  listen();
  addEventListener('pagehide', () => leave?.());
  addEventListener('pageshow', (event) => { if (event.persisted) listen(); });
}
if ($('[data-thread]')) toEnd();
