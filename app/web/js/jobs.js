// Jobs: a live list, and one job with its curve, its errors and its result.
import { Problem, describeError, download, get, request } from "./api.js";
import { curve } from "./charts.js";
import { fill, h } from "./dom.js";
import { number, t, when, moment } from "./i18n.js";
import { reviewButton } from "./stored.js";
import { evaluationPanel, percent } from "./train/evaluation.js";

const ENDED = ["succeeded", "failed", "cancelled"];

/**
 * @param {HTMLElement} main
 * @param {string} id
 * @returns {Promise<() => void>}
 */
export async function openJobs(main, id) {
  document.title = `${t("nav.jobs")} · Phonechain`;
  const abort = new AbortController();
  if (id) await openJob(main, id, abort.signal);
  else await openList(main, abort.signal);
  return () => abort.abort();
}

/**
 * @param {HTMLElement} main
 * @param {AbortSignal} signal
 */
async function openList(main, signal) {
  const body = h("div");
  fill(main, h("div", { class: "sheet" }, h("h1", null, t("nav.jobs")), h("p", { class: "soft" }, t("jobs.lead")), body));
  let shown = "";
  const refresh = async () => {
    const { jobs } = await get("jobs?limit=50", signal);
    const now = JSON.stringify(jobs.map((/** @type {any} */ job) => [job.id, job.state, job.progress]));
    if (now !== shown) {
      shown = now;
      fill(body, jobs.length === 0 ? h("p", { class: "soft" }, t("jobs.none")) : h("ul", { class: "cards" }, jobs.map(row)));
    }
  };
  await refresh();
  const timer = setInterval(() => void refresh().catch(() => {}), 2000); // the next turn may find the service again
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** @param {any} job */
function row(job) {
  return h("li", null, h("a", { class: "card", href: `#/jobs/${job.id}` },
    h("span", { class: "card-name" }, titleOf(job)),
    h("span", { class: "soft tabular" }, progressText(job)),
    h("span", { class: `state state-${job.state}` }, stateOf(job))));
}

/** @param {any} job */
function kindOf(job) {
  return t(/** @type {any} */ (`jobs.kind.${job.kind}`)) ?? job.kind;
}

/** What a job is called: its kind, the model that it trains, when it was submitted. @param {any} job */
function titleOf(job) {
  const words = { kind: kindOf(job), created: when(job.created) };
  return job.kind === "train" ? t("jobs.title.named", { ...words, name: job.request.name }) : t("jobs.title", words);
}

/** @param {any} job */
function stateOf(job) {
  return t(/** @type {any} */ (`jobs.state.${job.state}`)) ?? job.state;
}

/** @param {any} job */
function progressText(job) {
  const { done, total, unit, stage } = job.progress;
  return total > 0 ? `${stage} ${number(done)} / ${number(total)} ${unit}` : stage;
}

/**
 * @param {HTMLElement} main
 * @param {string} id
 * @param {AbortSignal} signal
 */
async function openJob(main, id, signal) {
  const path = `jobs/${encodeURIComponent(id)}`;
  let job = await get(path, signal);
  const head = h("div", { class: "job-head", "aria-live": "polite" });
  const curves = h("div");
  const rest = h("div", { class: "job-rest" });
  const evaluation = h("div");
  const notes = h("div", { class: "stack" });
  fill(main, h("div", { class: "sheet wide-sheet" }, h("p", { class: "crumb" }, h("a", { href: "#/jobs" }, `← ${t("jobs.all")}`)), h("h1", null, titleOf(job)), head, curves, notes, evaluation, rest));
  /** @type {{epoch: number, loss: number | null, dev_error: number | null}[]} */
  const epochs = [];

  function show() {
    const { done, total, message } = job.progress;
    fill(head,
      h("p", null, h("strong", { class: `state state-${job.state}` }, stateOf(job)), ` · ${progressText(job)}`, job.attempt > 1 && ` · ${t("jobs.attempt", { attempt: job.attempt })}`),
      !ENDED.includes(job.state) && h("progress", { max: Math.max(1, total), value: done, "aria-label": progressText(job) }),
      message && h("p", { class: "soft" }, message),
      job.error && h("p", { class: "bad", role: "alert" }, job.error.detail ?? job.error.title),
      h("div", { class: "row" },
        !ENDED.includes(job.state) && h("button", { class: "danger", disabled: job.state === "cancelling", onclick: () => void ask("POST", `${path}/cancel`) }, t("jobs.cancel")),
        job.state === "succeeded" && h("button", { class: "primary", onclick: () => void download(`${path}/result`).catch(refused) }, t("jobs.result")),
        job.kind === "train" && job.state === "succeeded" && [
          h("a", { class: "button", href: `#/home/${encodeURIComponent(job.result.name)}` }, t("jobs.use")),
          h("button", { onclick: () => void makeDefault() }, t("models.default")), h("a", { class: "button", href: "#/models" }, t("jobs.models"))]));
  }

  async function showEnd() {
    const parts = [];
    const { warnings, ...result } = job.result ?? {};
    // What the service noticed: too little data, a calibration that could not be fitted.
    fill(notes, (warnings ?? []).map((/** @type {any} */ one) => h("p", { class: "note" }, one.message ?? String(one))),
      ["label", "align", "recognize"].includes(job.kind) && result.utterances > job.failed_files && reviewButton({
        label: t("jobs.review"), name: titleOf(job), count: job.progress.total,
        source: { job: id }, model: job.kind === "label" ? job.request.model.name : undefined,
      }));
    if (job.state === "succeeded" && (job.kind === "train" || job.kind === "evaluate")) {
      const panel = await evaluationPanel(job);
      if (panel && !signal.aborted) {
        fill(evaluation, panel.element);
        signal.addEventListener("abort", panel.close);
      }
    }
    if (job.result) parts.push(h("h2", null, t("jobs.summary")), facts(result));
    if (job.failed_files > 0) {
      const { errors } = await get(`${path}/errors?limit=100`, signal);
      parts.push(h("h2", null, t("jobs.errors", { count: number(job.failed_files) })), h("div", { class: "scroll-x", tabIndex: 0, role: "region", "aria-label": t("jobs.errors", { count: job.failed_files }) }, h("table", null, h("thead", null, h("tr", null, h("th", null, t("list.utterance")), h("th", null, t("jobs.problem")))),
        h("tbody", null, errors.map((/** @type {any} */ one) => h("tr", null, h("td", null, one.utterance), h("td", null, one.detail)))))));
    }
    parts.push(h("details", null, h("summary", null, t("jobs.request")), facts(job.request)));
    fill(rest, parts);
  }

  /**
   * @param {string} method
   * @param {string} address
   */
  async function ask(method, address) {
    try {
      job = await (await request(method, address)).json();
      show();
    } catch (error) {
      refused(error);
    }
  }

  async function makeDefault() {
    try {
      await request("PUT", "aliases/default", { json: { model: `${job.result.name}@${job.result.version}` } });
      head.append(h("p", { class: "good", role: "status" }, t("jobs.isdefault", { name: job.result.name })));
    } catch (error) {
      refused(error);
    }
  }

  /** @param {any} error */
  function refused(error) {
    head.append(h("p", { class: "bad", role: "alert" }, describeError(error)));
  }

  show();
  await showEnd();
  let asked = 0;
  void follow(path, signal, async (kind, data) => {
    const metrics = data.progress?.metrics ?? {};
    if (kind === "progress" && typeof metrics.epoch === "number") {
      const known = epochs.find(({ epoch }) => epoch === metrics.epoch);
      if (!known) epochs.push({ epoch: metrics.epoch, loss: metrics.loss ?? null, dev_error: metrics.dev_error ?? null });
      else {
        known.loss = metrics.loss ?? known.loss;
        known.dev_error = metrics.dev_error ?? known.dev_error;
      }
      fill(curves, charts(epochs));
    }
    // The old events come all at once: the job itself is asked for a few times per second at most.
    if (!ENDED.includes(data.state) && performance.now() - asked < 400) return;
    asked = performance.now();
    job = await get(path, signal);
    show();
    if (ENDED.includes(job.state)) await showEnd();
  });
}

/**
 * The job's events as they come: EventSource cannot send a key, so the stream is read here.
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {(kind: string, data: any) => Promise<void>} tell
 */
async function follow(path, signal, tell) {
  let last = "";
  for (;;) {
    try {
      const response = await request("GET", `${path}/events`, { signal, headers: last ? { "Last-Event-ID": last } : {} });
      const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
      const decoder = new TextDecoder();
      let buffer = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += decoder.decode(value, { stream: true });
        const blocks = buffer.split("\n\n");
        buffer = blocks.pop() ?? "";
        for (const block of blocks) {
          const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
          last = fields.get("id") ?? last;
          const data = fields.get("data");
          if (!data) continue;
          const parsed = JSON.parse(data);
          await tell(fields.get("event") ?? "", parsed);
          if (ENDED.includes(parsed.state)) return;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && !error.transient) return;
    }
    await new Promise((resume) => setTimeout(resume, 1500)); // the service restarts, or the stream was cut
    if (signal.aborted) return;
  }
}

/**
 * Loss and dev error by epoch, side by side, each with its own scale.
 * @param {{epoch: number, loss: number | null, dev_error: number | null}[]} epochs
 */
function charts(epochs) {
  const last = epochs[epochs.length - 1];
  const label = t("jobs.curve", { epoch: last?.epoch ?? 0, loss: last?.loss?.toFixed(3) ?? "–", error: percent(last?.dev_error) });
  const one = (/** @type {"loss" | "dev_error"} */ name, /** @type {string} */ title, /** @type {(value: number) => string} */ format) => {
    const points = epochs.filter((epoch) => epoch[name] !== null).map((epoch) => ({ x: epoch.epoch, y: Number(epoch[name]) }));
    if (points.length === 0) return null;
    return h("figure", null, h("figcaption", null, title, " ", h("strong", { class: "tabular" }, format(Number(last?.[name] ?? points[points.length - 1]?.y)))),
      curve(points, { label: `${title}: ${label}`, x: t("jobs.epoch"), y: title, format, kind: name, counted: true }));
  };
  return h("div", { class: "columns charts" }, one("loss", t("jobs.loss"), (value) => value.toPrecision(3)), one("dev_error", t("jobs.error"), (value) => `${(100 * value).toFixed(1)} %`));
}

/**
 * Members of an object as a list; those of a member that is an object itself stand side by side.
 * @param {Record<string, any>} object
 */
export function facts(object) {
  return h("dl", { class: "facts" }, members(object).map(([name, value]) => [h("dt", null, name), h("dd", null, isPlain(value)
    ? h("div", { class: "pairs" }, members(value).map(([one, inner]) => h("span", null, h("span", null, one), ` ${plain(inner)}`))) : plain(value))]));
}

/**
 * What has a value, under names without underscores.
 * @param {Record<string, any>} object
 * @returns {[string, any][]}
 */
function members(object) {
  return Object.entries(object).filter(([, value]) => value !== null && value !== undefined && !(isPlain(value) && Object.keys(value).length === 0))
    .map(([name, value]) => [name.replaceAll("_", " "), value]);
}

/** @param {any} value */
function isPlain(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * A value in words: lists with blanks between, members with commas between, times as people write them, numbers with four
 * digits that matter.
 * @param {any} value
 * @returns {string}
 */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join(typeof value[0] === "object" ? "; " : " ");
  if (typeof value === "number") return Number.isInteger(value) ? number(value) : String(Number(value.toPrecision(4)));
  if (typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value)) return moment(value);
  if (!isPlain(value)) return String(value);
  return members(value).map(([name, one]) => `${name} ${plain(one)}`).join(", ");
}
