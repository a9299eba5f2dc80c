import { readFile, writeFile } from 'node:fs/promises'
import type { Test } from 'tap'
import { projectFile } from '../helpers/files.js'

/**
 * The public surface of the product, recorded in `test/surface/expected`: names, statuses, texts and schemas that users
 * and their programs rely on. A test here fails when the product shows another surface than the recorded one, and prints
 * the difference. A change that is meant is recorded with
 *
 *     SLUICE_RECORD=1 node test/run.mjs dist-test/test/surface/*.test.js
 *
 * and read in the diff of the recorded files before it is committed.
 */
const RECORD = process.env.SLUICE_RECORD === '1'

/** Lines of a difference that are printed. */
const MOST_LINES = 80
/** Columns up to which a value of JSON stays on one line. */
const WIDTH = 150

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

/** Compares lines with the recorded file `name`, or records them. An empty surface is an error in both cases. */
export async function sameAsRecorded(
  t: Test,
  name: string,
  lines: readonly string[],
  path = `test/surface/expected/${name}.txt`
): Promise<void> {
  const file = projectFile(path)
  const text = `${lines.join('\n')}\n`
  if (text.trim() === '') throw new Error(`the product shows nothing of ${name}`)
  if (RECORD) {
    await writeFile(file, text)
    t.pass(`${name} is recorded`)
    return
  }
  const found = difference(await recorded(file), text)
  t.equal(
    found,
    '',
    `${name} is as recorded; what is meant to change is recorded with SLUICE_RECORD=1${indented(found)}`
  )
}

async function recorded(file: URL): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch (cause) {
    throw new Error(`${file.pathname} is missing: record it with SLUICE_RECORD=1`, { cause })
  }
}

function indented(text: string): string {
  return text === '' ? '' : `\n${text.replace(/^/gm, '  ')}`
}

/** What was (`-`) and what is (`+`), each line with its number; empty when both are the same. */
export function difference(before: string, after: string): string {
  if (before === after) return ''
  const [old, now] = [before.split('\n'), after.split('\n')]
  const gone = leftOver(old, now).map(([at, line]) => `-${at}: ${line}`)
  const come = leftOver(now, old).map(([at, line]) => `+${at}: ${line}`)
  if (gone.length + come.length === 0) return 'the same lines stand in another order'
  const shown = [...gone.slice(0, MOST_LINES / 2), ...come.slice(0, MOST_LINES / 2)]
  const more = gone.length + come.length - shown.length
  return [...shown, ...(more > 0 ? [`… and ${more} lines more`] : [])].join('\n')
}

/** Lines of `these` that `others` does not have, or not as often, with their numbers. */
function leftOver(these: readonly string[], others: readonly string[]): [number, string][] {
  const counts = new Map<string, number>()
  for (const line of others) counts.set(line, (counts.get(line) ?? 0) + 1)
  const left: [number, string][] = []
  for (const [index, line] of these.entries()) {
    const count = counts.get(line) ?? 0
    if (count > 0) counts.set(line, count - 1)
    else left.push([index + 1, line])
  }
  return left
}

/** JSON whose short values stand on one line each. The order of keys is kept: it is part of what users read. */
export function jsonLines(value: unknown): string[] {
  return written(value as Json, '').split('\n')
}

function written(value: Json, indent: string): string {
  const short = JSON.stringify(value)
  if (indent.length + short.length <= WIDTH || typeof value !== 'object' || value === null) return short
  const inner = `${indent} `
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  const items = Array.isArray(value)
    ? value.map((item: Json) => written(item, inner))
    : Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${written(item, inner)}`)
  return `${open}\n${items.map((item) => inner + item).join(',\n')}\n${indent}${close}`
}

/**
 * Makes texts of two runs comparable: times, ports, keys and other random texts stand as their kind, ids as their number by
 * first appearance among all texts that the function has seen.
 */
export function withoutChance(folder: string): (text: string) => string {
  const numbers = new Map<string, string>()
  const id = (text: string) => {
    const known = numbers.get(text) ?? `<id ${numbers.size + 1}>`
    numbers.set(text, known)
    return known
  }
  return (text) =>
    text
      .replaceAll(folder, '<folder>')
      .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>')
      .replace(/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, '<time>')
      .replace(/\b1[6-9]\d{8}(\d{3})?\b/g, '<time>')
      .replace(/\b(127\.0\.0\.1|localhost):\d+/g, '$1:<port>')
      .replace(/\b[a-z]{2,12}_[0-9A-Za-z]{27}(_[0-9a-f]{64})?\b|\bep_[0-9a-z]{8}_\d+_[0-9a-f]{16}\b/g, id)
      .replace(/\b(nonce|state|code_challenge)=[\w%.-]+/g, '$1=<random>')
      .replace(/\b[0-9a-f]{20}\.[0-9a-f]{20}\b/g, '<random>')
      .replace(/\bsl[0-9a-f]{12}(\.[0-9a-z]{4,})?/g, '<tag>')
      // The value of a cookie of logins: base64url, which the line for random texts would take in parts.
      .replace(/<tag>=[\w-]{40,}/g, '<tag>=<random>')
      .replace(/\b[0-9a-f]{8}-[0-9a-f-]{27}\b/g, '<uuid>')
      .replace(/[A-Za-z0-9+/=]{60,}|(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{40,}/g, '<random>')
      .replace(/"(id)":"[\w-]{22}"/g, '"$1":"<random>"')
      .replace(/"connection_reused":(true|false)/g, '"connection_reused":<flag>')
      .replace(/"sealed":"[0-9a-f]+"/g, '"sealed":"<bytes>"')
      .replace(/"(duration|delivered|[a-z_]*(_ms|_ts|_port))":[\d.]+/g, '"$1":<number>')
}
