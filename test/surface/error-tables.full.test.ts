import t from 'tap'
import { errorGroups } from '../../src/app/catalogue.js'
import { errorRows, isCode, statuses } from './codes.js'
import * as source from './source.js'

/** One table of error codes: what the source writes is in it, and what is in it is used. */

/** Codes that the source writes outside of tables, with the files that do. */
const written = new Map<string, Set<string>>()
/** Names of members that the source reads: `RATE_LIMITED` of `rateLimitErrors.RATE_LIMITED`. */
const named = new Set<string>()
/** Codes of the tables, as often as they stand there. */
const declared: string[] = []
/** Calls that get a code as a text of their own instead of a row. A code that is typed by its table is checked by the compiler. */
const free: string[] = []
const TAKES_A_ROW =
  /^(refuse|CodedError|ControlError|ApiError|scope\.(problem|warn|unavailable)|.*[rR]eport\.(error|warning))$/

await source.everyNode((node, file) => {
  const table = source.tableOf(node)
  if (table !== undefined) {
    declared.push(...source.memberNames(table))
    return false
  }
  const text = source.textOf(node)
  if (text !== undefined && isCode(text, file)) written.set(text, (written.get(text) ?? new Set()).add(file))
  const name = source.accessedName(node)
  if (name !== undefined) named.add(name)
  const call = source.called(node)
  if (call === undefined || !TAKES_A_ROW.test(call.name)) return true
  for (const argument of call.args) {
    const code = source.isObject(argument) ? source.textOf(source.member(argument, 'code')) : undefined
    if (code !== undefined && isCode(code, file)) free.push(`${file}: ${call.name}({ code: '${code}' })`)
  }
  return true
})

t.test('every code that the source writes is in a table', async (t) => {
  t.ok(written.size > 50, 'the source is read')
  for (const [code, files] of written) t.ok(statuses.has(code), `${code}, written in ${[...files].join(', ')}`)
})

t.test('every code of a table is used', async (t) => {
  for (const code of statuses.keys()) t.ok(written.has(code) || named.has(code), code)
})

t.test('every table is in the catalogue', async (t) => {
  t.ok(declared.length > 200, 'the source is read')
  t.same(declared.sort(), errorRows.map(({ code }) => code).sort())
})

t.test('what makes an error or an answer takes a row of a table', async (t) => {
  t.same(free, [])
})

t.test('every row says what has happened and what to do', async (t) => {
  for (const { code, text, help } of errorRows) {
    t.match(text, /^[A-Z].*\.$/, `${code} has a sentence`)
    t.match(help, /^[A-Z].*\.$/, `${code} has an advice`)
  }
})

t.test('no code stands twice where readers meet it, or has two statuses in two places', async (t) => {
  for (const { title, tables } of await errorGroups()) {
    const codes = tables.flatMap((table) => Object.keys(table))
    t.same(
      codes.filter((code, index) => codes.indexOf(code) !== index),
      [],
      title
    )
  }
  for (const { code, status } of errorRows) {
    const others = errorRows.filter((row) => row.code === code && row.status !== undefined && status !== undefined)
    for (const other of others) t.equal(other.status, status, code)
  }
})
