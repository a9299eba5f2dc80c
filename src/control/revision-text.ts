import type { RevisionDiff } from './revision-answers.js'

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

type Change = RevisionDiff['changes'][number]
type Difference = NonNullable<Change['differences']>[number]

/** Record of a diff or a revert. A process of an older version sends no name. */
type ChangedRecord = Pick<Change, 'change' | 'resource' | 'id'> & Partial<Pick<Change, 'name' | 'description'>>

/** Formats the response of `GET /revisions/{id}/diff` as lines for a terminal. */
export function diffLines(diff: RevisionDiff): DiffLine[] {
  const { changes } = diff
  const lines = [line('heading', headingOf(diff)), ...changes.flatMap(changeLines)]
  return changes.length === 0 ? [...lines, line('plain', 'nothing differs')] : lines
}

function headingOf({ id, from, created_at, principal }: RevisionDiff): string {
  if (from.id !== id - 1) return `revision ${id} compared with revision ${from.id}`
  const who = principal === null ? 'the service' : `${principal.subject} (${principal.id})`
  return `revision ${id} of ${created_at} by ${who}`
}

/** Returns the first line of a changed record: `~ https_edge_route app.test/api/ edghtsrt_3Mj… "the API"`. */
export function changedRecord({ change, resource, id, name, description }: ChangedRecord): string {
  const named = typeof name === 'string' ? `${name} ` : ''
  const described = typeof description === 'string' ? ` ${JSON.stringify(description)}` : ''
  return `${SIGNS[change]} ${resource} ${named}${id}${described}`
}

function changeLines(shown: Change): DiffLine[] {
  const { change, differences } = shown
  const head = line(change, changedRecord(shown))
  const secrets = shown.secrets.map(secretLine)
  if (differences === null) return [head, line('plain', '    (the history does not show its fields)'), ...secrets]
  return [head, ...differences.flatMap((one) => fieldLines(change, one)), ...secrets]
}

function secretLine(path: string): DiffLine {
  return line('plain', `    ${path}: changed (secret)`)
}

function fieldLines(change: keyof typeof SIGNS, difference: Difference): DiffLine[] {
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
