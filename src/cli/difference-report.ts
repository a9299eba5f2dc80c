import type { ImportDifference, RecordDifference } from '../control/transfer/import-account.js'

const SIGNS = { created: '+', updated: '~', deleted: '-' } as const

/** What an import does, one line for each record that changes, kind by kind, and the numbers at the end. */
export function formatDifference({ records, unchanged, warnings }: ImportDifference): string[] {
  const kinds = new Set(records.map(({ kind }) => kind))
  const lines = [...kinds].flatMap((kind) => [`${kind}:`, ...records.filter((one) => one.kind === kind).map(line)])
  const count = (change: RecordDifference['change']) => records.filter((one) => one.change === change).length
  const same = Object.values(unchanged).reduce((sum, number) => sum + number, 0)
  const total = `${count('created')} created, ${count('updated')} updated, ${count('deleted')} deleted, ${same} unchanged`
  return [...lines, ...warnings.map((warning) => `warning: ${printable(warning)}`), total]
}

function line({ id, name, change, fields }: RecordDifference): string {
  const what = fields.length === 0 ? '' : ` (${fields.join(', ')})`
  return `  ${SIGNS[change]} ${id}${name === '' ? '' : ` ${printable(name)}`}${what}`
}

/** Names may hold escape sequences; a terminal must not obey them. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones that must not get through
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '\ufffd').slice(0, 100)
}
