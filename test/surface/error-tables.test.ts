import t from 'tap'
import { controlErrors } from '../../src/control/errors.js'
import { flowErrors } from '../../src/flow/error-codes.js'
import type { ErrorMeaning } from '../../src/lib/errors.js'
import { storeErrors } from '../../src/store/errors.js'
import * as source from './source.js'

const tables: Readonly<Record<string, Readonly<Record<string, ErrorMeaning>>>> = {
  flow: flowErrors,
  control: controlErrors,
  store: storeErrors
}

const written = new Set<string>()
const inStoreErrors = new Set<string>()
await source.everyNode((node) => {
  const text = source.textOf(node)
  if (text !== undefined) written.add(text)
  const call = source.called(node)
  if (call?.name === 'StoreError') inStoreErrors.add(source.textOf(call.args[0]) ?? '')
  if (/^flowErrors\.[A-Z_]+$/.test(node.getText())) written.add(node.getText().slice('flowErrors.'.length))
})

for (const [name, table] of Object.entries(tables)) {
  t.test(`every error of ${name} has a meaning and is used`, async (t) => {
    for (const [code, { text }] of Object.entries(table)) {
      t.match(text, /^[A-Z].*\.$/, `${code} has a sentence`)
      t.ok(written.has(code), `${code} is used`)
    }
  })
}

t.test('every code of the store is in its table', async (t) => {
  inStoreErrors.delete('')
  t.ok(inStoreErrors.size > 5, 'the source is read')
  for (const code of inStoreErrors) t.ok(code in storeErrors, code)
})

t.test('no code stands in two tables', async (t) => {
  const all = Object.values(tables).flatMap((table) => Object.keys(table))
  t.same(all.length, new Set(all).size)
})
