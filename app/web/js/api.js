// Requests to the service. A refusal becomes a Problem with the service's own words.
import { t } from "./i18n.js";

/** An error of the service (RFC 9457), or of the way to it. */
export class Problem extends Error {
  /** @param {Record<string, any>} document */
  constructor(document) {
    super(document.detail ?? document.title ?? "");
    this.document = document;
    /** @type {number} */
    this.status = document.status ?? 0;
    /** @type {string} */
    this.type = document.type ?? "";
  }

  /** True where the service could not be reached, or asks to try again. */
  get transient() {
    return this.status === 0 || this.status === 503 || this.status === 502 || this.status === 504;
  }
}

/**
 * What people are told of an error.
 * @param {any} error
 * @returns {string}
 */
export function describeError(error) {
  return error instanceof Problem ? error.message : String(error);
}

/** The API key, in memory alone: gone with the window. */
let key = "";
export const events = new EventTarget();

/** @param {string} value */
export function signIn(value) {
  key = value.trim();
  events.dispatchEvent(new Event("key"));
}

export function signedIn() {
  return key !== "";
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{json?: any, body?: BodyInit, headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<Response>}
 */
export async function request(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { ...options.headers };
  if (key) headers["Authorization"] = `Bearer ${key}`;
  let body = options.body ?? null;
  if (options.json !== undefined) {
    body = JSON.stringify(options.json);
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal: options.signal ?? null, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem({ status: 0, detail: t("error.away") });
  }
  if (!response.ok) {
    const isProblem = (response.headers.get("content-type") ?? "").includes("problem+json");
    const problem = new Problem(
      isProblem ? await response.json() : { status: response.status, detail: `${response.status} ${response.statusText}` },
    );
    if (problem.status === 401) events.dispatchEvent(new CustomEvent("refused", { detail: problem }));
    throw problem;
  }
  return response;
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(path, signal) {
  return (await request("GET", path, signal ? { signal } : {})).json();
}

/**
 * @param {string} path
 * @param {any} json
 * @returns {Promise<any>}
 */
export async function post(path, json) {
  return (await request("POST", path, { json })).json();
}

/**
 * Save a file of the service under the name that the service gives it.
 * @param {string} path
 */
export async function download(path) {
  const response = await request("GET", path);
  const disposition = response.headers.get("content-disposition") ?? "";
  const encoded = /filename\*=UTF-8''([^;]+)/.exec(disposition);
  const plain = /filename="([^"]*)"/.exec(disposition);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = encoded?.[1] ? decodeURIComponent(encoded[1]) : (plain?.[1] ?? "download");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return response.headers.get("x-phonechain-warnings") ?? "";
}
