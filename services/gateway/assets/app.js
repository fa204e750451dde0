// What the pages do beyond forms and links. Text from elsewhere only ever becomes textContent; markup comes from our
// own server through htmx, which checks each answer's nonce. With scripts off every page still works.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const later = (work, ms) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(work, ms); }; };
const fetchPart = (path, target, swap) => window.htmx.ajax('GET', path, { target, swap }).catch(() => {});

// --- Time: what is left on cards, and clocks in the reader's own zone.

const ends = new WeakMap();

function tick() {
  for (const left of $$('[data-left]')) {
    const known = ends.get(left);
    const said = left.dataset.left;
    const end = known?.said === said ? known.end : performance.now() + said * 1000;
    ends.set(left, { said, end });
    const seconds = Math.max(0, Math.ceil((end - performance.now()) / 1000));
    const minutes = Math.floor(seconds / 60);
    const words = minutes < 60 ? `${minutes}:${String(seconds % 60).padStart(2, '0')}`
      : minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 1440)} days`;
    if (left.textContent !== words) left.textContent = words;
    left.parentElement.classList.toggle('soon', seconds < 60);
    const card = left.closest('[data-gate]');
    const bar = card && $('progress', card);
    if (bar) bar.value = seconds;
    if (seconds === 0 && card && !card.dataset.over) {
      card.dataset.over = 'yes';
      setTimeout(() => refresh(card.dataset.gate), 1500);
    }
  }
}

function clocks(root) {
  for (const time of $$('time[datetime]', root)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const clock = { hour: '2-digit', minute: '2-digit' };
    const today = at.toDateString() === new Date().toDateString();
    const words = at.toLocaleString(document.documentElement.lang, today ? clock : { day: 'numeric', month: 'short', ...clock });
    if (time.textContent !== words) time.textContent = words;
  }
}

// --- The whole thing before the approval: Approve wakes when the end was in view.

const seen = new Set();
const version = (card) => `${card.dataset.gate} ${$('[name=args_digest]', card)?.value}`;
const watcher = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    const card = target.closest('[data-gate]');
    if (!isIntersecting || !card) continue;
    seen.add(version(card));
    watcher.unobserve(target);
    $$('[data-gate]').filter((other) => version(other) === version(card)).forEach(gateApprove);
  }
});

function gateApprove(card) {
  const button = $('[data-approve]', card);
  if (!button) return;
  const whole = $('[data-whole]', card);
  const long = whole.scrollHeight > whole.clientHeight + 2;
  const asleep = long && !seen.has(version(card));
  button.disabled = asleep;
  $('[data-hint]', card).hidden = !asleep;
  if (asleep) watcher.observe($('[data-end]', card));
}

function wake(root) {
  clocks(root);
  const cards = root.matches?.('[data-gate]') ? [root] : $$('[data-gate]', root);
  cards.forEach(gateApprove);
  tick();
}

// --- Counts, announcements, and cards that wait above.

const title = document.title;
const recount = later(async () => {
  const answer = await fetch('/ui/count', { headers: { accept: 'application/json' } }).catch(() => null);
  if (!answer?.ok) return;
  const { pending } = await answer.json();
  $$('[data-count]').forEach((count) => { count.textContent = pending; count.hidden = pending === 0; });
  document.title = pending ? `(${pending}) ${title}` : title;
}, 80);

const headline = (card) => $('.headline', card)?.textContent.trim() ?? '';
const announce = (card) => { $('#announce').textContent = `A new approval is waiting: ${headline(card)}`; };

function notice(words) {
  const toast = $('#notice');
  toast.textContent = words;
  toast.hidden = false;
  setTimeout(() => { toast.hidden = true; }, 8000);
}

function penChanged() {
  const pen = $('#pen');
  const button = $('#fresh');
  if (!pen || !button) return;
  const count = pen.children.length;
  if (count && !$('#inbox [data-gate]')) return empty(pen);
  button.hidden = count === 0;
  button.textContent = `${count} new`;
}

function empty(pen) {
  $('#inbox').prepend(...pen.children);
  $('#fresh').hidden = true;
  wake($('#inbox'));
}

// --- Live: one stream of events for the page.

async function refresh(gate) {
  const shown = $$('[data-gate]').filter((card) => card.dataset.gate === gate);
  await Promise.all(shown.map((card) =>
    fetchPart(`/ui/gates/${encodeURIComponent(gate)}?place=${encodeURIComponent(card.dataset.place)}`, card, 'outerMorph')));
  return shown.length > 0;
}

const arriving = new Set();

async function onGate({ gate_id: gate, thread_id: thread, state }) {
  recount();
  const known = await refresh(gate);
  if (state !== 'pending' || arriving.has(gate)) return;
  const here = $('[data-thread]')?.dataset.thread === thread;
  const place = here ? 'side' : '';
  const home = here ? $('#side') : $('#pen');
  if (!home && !known) $('#announce').textContent = 'A new approval is waiting.';
  if (!home || $$('[data-gate]', here ? home : document).some((card) => card.dataset.gate === gate)) return;
  arriving.add(gate);
  await fetchPart(`/ui/gates/${encodeURIComponent(gate)}?place=${place}`, home, here ? 'beforeend' : 'afterbegin');
  arriving.delete(gate);
  if (here) $('#main').classList.add('beside');
  const card = $$('[data-gate]', home).find((other) => other.dataset.gate === gate);
  if (card) announce(card);
  penChanged();
}

const atEnd = () => window.innerHeight + window.scrollY > document.documentElement.scrollHeight - 120;
const toEnd = () => window.scrollTo({ top: document.documentElement.scrollHeight });

const refetchMessages = later(async () => {
  const column = $('[data-thread]');
  if (!column) return;
  const stay = !atEnd();
  await fetchPart(`/ui/threads/${encodeURIComponent(column.dataset.thread)}/messages`, $('#messages'), 'innerMorph');
  if (!stay) toEnd();
}, 60);

function stream(turn, text) {
  const running = $('#running');
  const body = $('.body', running);
  const stay = !atEnd();
  if (running.dataset.running !== turn) body.textContent = '';
  running.dataset.running = turn;
  body.append(text);
  running.hidden = false;
  if (!stay) toEnd();
}

function hush() {
  $('#running').hidden = true;
  $('#running .body').textContent = '';
}

function listen(path) {
  const source = new EventSource(path);
  const on = (name, work) => source.addEventListener(name, (event) => {
    try { work(JSON.parse(event.data || '{}')); } catch (error) { console.error(name, error); }
  });
  const mine = (data) => data.thread_id && $('[data-thread]')?.dataset.thread === data.thread_id;
  on('gate', onGate);
  on('delta', (data) => { if (mine(data)) stream(data.turn_id, data.text); });
  on('message', (data) => { if (mine(data)) { if (data.kind === 'reply') hush(); refetchMessages(); } });
  on('turn', (data) => { if (mine(data)) { if (!['open', 'running'].includes(data.state)) hush(); refetchMessages(); } });
  on('output', ({ call_id: call, text }) => {
    for (const output of $$('[data-output]')) if (output.dataset.output === call) output.append(text);
  });
  const again = (ms) => { source.close(); setTimeout(() => listen(path), ms); };
  on('end', () => again(1000));
  source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) again(5000); });
}

// --- What htmx swaps.

document.addEventListener('htmx:before:swap', (event) => {
  const { ctx } = event.detail;
  const card = /^\/(ui\/)?gates\//.test(ctx.request?.action ?? '');
  const fits = card ? ctx.text.includes('data-gate=') : ctx.response?.status < 400;
  if (fits) return;
  event.preventDefault();
  if (ctx.request.method === 'POST') notice('This was not recorded. Reload the page and look again.');
});

document.addEventListener('htmx:after:swap', (event) => {
  const { ctx } = event.detail;
  wake(document.body);
  if (ctx.request?.method !== 'POST') return;
  const gate = /^\/gates\/([^/]+)\/decision/.exec(ctx.request.action)?.[1];
  const card = ctx.target?.closest?.('[data-gate]') ?? $$('[data-gate]').find((other) => other.dataset.gate === gate);
  if (gate && card) $('.headline', card)?.focus();
  else if (ctx.sourceElement?.id === 'composer') {
    ctx.sourceElement.reset();
    $('[name=idempotency_key]', ctx.sourceElement).value = crypto.randomUUID();
    toEnd();
  }
});

document.addEventListener('htmx:error', (event) => {
  if (event.detail.ctx?.request?.method === 'POST') notice('Kazma did not answer. Nothing was sent twice; try again.');
});

// --- Small things.

document.addEventListener('click', (event) => {
  const fill = event.target.closest?.('[data-fill]');
  const text = $('#text');
  if (fill && text && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    text.value = fill.dataset.fill;
    text.focus();
  } else if (event.target.closest?.('#fresh')) {
    empty($('#pen'));
    $('#inbox .headline')?.focus();
  }
});

// Enter sends a message where a keyboard is at hand. Nothing on a card listens to keys.
document.addEventListener('keydown', (event) => {
  const field = event.target;
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing || field.id !== 'text' || !matchMedia('(pointer: fine)').matches) return;
  event.preventDefault();
  if (field.value.trim()) field.form.requestSubmit();
});

const token = /[#&]token=([^&]+)/.exec(location.hash)?.[1];
const link = $('#link');
if (link && token) {
  history.replaceState(null, '', location.pathname + location.search);
  $('[name=token]', link).value = decodeURIComponent(token);
  link.submit();
}

wake(document.body);
setInterval(tick, 1000);
if (document.body.dataset.live) listen(document.body.dataset.live);
if ($('[data-thread]')) toEnd();
