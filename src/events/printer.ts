import type { FieldReader } from '../telemetry/event-filter.js'

/** Writes an object with chosen fields as JSON, straight from what reads them. */
export type Printer = (read: FieldReader) => string

/** What may not stand in a JSON string as it is (RFC 8259 section 7), and halves of surrogate pairs, which UTF-8 lacks. */
const TO_ESCAPE = /["\\\p{Cc}\p{Cs}]/u

/**
 * `paths`: dotted; each is a field in an object below the one before its dot. A field without a value is null. The braces and
 * the names are written once, here: an event only adds its values.
 */
export function printer(paths: Iterable<string>): Printer {
  const steps: { readonly before: string; readonly path: string }[] = []
  let text = ''
  const open = (fields: Iterable<readonly [path: string, rest: string]>) => {
    text += '{'
    for (const [place, [key, below]] of [...grouped(fields)].entries()) {
      text += `${place === 0 ? '' : ','}${JSON.stringify(key)}:`
      const [first] = below
      if (first !== undefined && first[1] === '') {
        steps.push({ before: text, path: first[0] })
        text = ''
      } else open(below)
    }
    text += '}'
  }
  open([...paths].map((path) => [path, path] as const))
  const end = text
  return (read) => {
    let json = ''
    for (const { before, path } of steps) json += before + printed(read(path))
    return json + end
  }
}

/** Fields by the first part of their rest, with what is left of that. */
function grouped(fields: Iterable<readonly [path: string, rest: string]>): ReadonlyMap<string, [string, string][]> {
  const keys = new Map<string, [string, string][]>()
  for (const [path, rest] of fields) {
    const dot = rest.indexOf('.')
    const key = dot === -1 ? rest : rest.slice(0, dot)
    const below = keys.get(key) ?? []
    below.push([path, dot === -1 ? '' : rest.slice(dot + 1)])
    keys.set(key, below)
  }
  return keys
}

function printed(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'string') return TO_ESCAPE.test(value) ? JSON.stringify(value) : `"${value}"`
  return JSON.stringify(value) ?? 'null'
}
