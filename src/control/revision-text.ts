import { isObject } from '../lib/json.js'

/** Kind of a line in the text of a difference, for its color. */
export type DiffLineKind = 'heading' | 'created' | 'updated' | 'deleted' | 'hunk' | 'plain'

/** One line for people, without control characters. */
export interface DiffLine {
  readonly kind: DiffLineKind
  readonly text: string
}

const SIGNS = { created: '+', updated: '~', deleted: '-' } as const
/** Characters of a value on a line. */
const LONGEST_VALUE = 500
const EMPTY: ReadonlySet<string> = new Set(['not set', '""', '[]', '{}'])

/** Formats the response of `GET /revisions/{id}/diff` as lines for a terminal. */
export function diffLines(diff: Readonly<Record<string, unknown>>): DiffLine[] {
  const changes = Array.isArray(diff.changes) ? diff.changes.filter(isObject) : []
  const lines = [line('heading', headingOf(diff)), ...changes.flatMap(changeLines)]
  return changes.length === 0 ? [...lines, line('plain', 'nothing differs')] : lines
}

function headingOf({ id, from, created_at, principal }: Readonly<Record<string, unknown>>): string {
  const other = isObject(from) ? Number(from.id) : Number(id) - 1
  if (other !== Number(id) - 1) return `revision ${id} compared with revision ${other}`
  const who = isObject(principal) ? `${principal.subject} (${principal.id})` : 'the service'
  return `revision ${id} of ${created_at} by ${who}`
}

function changeLines(change: Readonly<Record<string, unknown>>): DiffLine[] {
  const kind = isKind(change.change) ? change.change : 'updated'
  const named = typeof change.description === 'string' ? ` ${JSON.stringify(change.description)}` : ''
  const head = line(kind, `${SIGNS[kind]} ${change.resource} ${change.id}${named}`)
  const secrets = Array.isArray(change.secrets) ? change.secrets : []
  if (!Array.isArray(change.differences)) {
    return [head, line('plain', '    (the history does not show its fields)'), ...secrets.map(secretLine)]
  }
  return [
    head,
    ...change.differences.filter(isObject).flatMap((one) => fieldLines(kind, one)),
    ...secrets.map(secretLine)
  ]
}

function isKind(value: unknown): value is keyof typeof SIGNS {
  return typeof value === 'string' && Object.hasOwn(SIGNS, value)
}

function secretLine(path: unknown): DiffLine {
  return line('plain', `    ${path}: changed (secret)`)
}

function fieldLines(change: keyof typeof SIGNS, difference: Readonly<Record<string, unknown>>): DiffLine[] {
  const { field, before, after, text_diff } = difference
  if (typeof text_diff !== 'string') {
    const [then, now] = [valueText(before), valueText(after)]
    // Empty fields of a whole record are left out.
    if (change !== 'updated' && EMPTY.has(change === 'created' ? now : then)) return []
    const both = change === 'created' ? now : change === 'deleted' ? then : `${then} → ${now}`
    return [line('plain', `    ${field}: ${both}`)]
  }
  return [line('plain', `    ${field}:`), ...text_diff.split('\n').map((one) => line(kindOf(one), `      ${one}`))]
}

function kindOf(text: string): DiffLineKind {
  if (text.startsWith('@@')) return 'hunk'
  if (text.startsWith('+')) return 'created'
  return text.startsWith('-') ? 'deleted' : 'plain'
}

function valueText(value: unknown): string {
  const text = value === null || value === undefined ? 'not set' : JSON.stringify(value)
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}… (${text.length} characters)` : text
}

/** Descriptions and documents may hold escape sequences; a terminal must not obey them. */
function line(kind: DiffLineKind, text: string): DiffLine {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that must not get through
  return { kind, text: text.replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029]/g, '\ufffd') }
}
