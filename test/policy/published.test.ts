import { readFileSync } from 'node:fs'
import t from 'tap'
import Schema from 'typebox/schema'
import { parse } from 'yaml'
import { offline, policyServices } from '../../src/app/services.js'
import { actions } from '../../src/features/registry.js'
import { compilePolicy } from '../../src/policy/compile.js'
import { policySchema } from '../../src/policy/json-schema.js'
import { fixture } from '../helpers/files.js'

const folder = fixture('policies/')
const services = policyServices(offline(actions))

interface Published {
  readonly file: string
  readonly expect: 'accept' | 'review' | 'unsupported'
}

const published = JSON.parse(readFileSync(new URL('published.json', folder), 'utf8')) as Published[]
const textOf = (file: string) => readFileSync(new URL(`published/${file}`, folder), 'utf8')

function check(text: string) {
  const keep = { keep: <T>(key: readonly unknown[], make: (identity: string) => T) => make(JSON.stringify(key)) }
  return compilePolicy(text, { owner: 'test', services, keep, actions, unavailable: 'warn' }).problems
}

t.test('documents as people publish them get the verdict that they deserve', async (t) => {
  t.ok(published.length > 200)
  for (const { file, expect } of published) {
    const problems = check(textOf(file))
    const errors = problems
      .filter(({ severity }) => severity === 'error')
      .map(({ code, message }) => `${code}: ${message}`)
    if (expect === 'accept') t.same(errors, [], file)
    else if (expect === 'unsupported') t.match(errors, [/^ACTION_UNSUPPORTED: /], file)
    else t.ok(problems.length > 0, file)
  }
})

t.test('every problem has a place in the text', async (t) => {
  for (const { file } of published) {
    const text = textOf(file)
    const lines = text.split('\n')
    for (const { line, column, length, message } of check(text)) {
      const shown = lines[line - 1]?.slice(column - 1, column - 1 + length)
      t.equal(shown?.length, length, `${file}:${line}:${column}: ${message}`)
    }
  }
})

t.test('the schema for editors takes what is accepted', async (t) => {
  const schema = policySchema(actions)
  for (const { file, expect } of published) {
    if (expect !== 'accept') continue
    const [valid, errors] = Schema.Errors(schema, parse(textOf(file)))
    t.ok(valid, `${file} ${JSON.stringify(errors[0])}`)
  }
})

t.test('the schema for editors refuses what is wrong', async (t) => {
  const schema = policySchema(actions)
  const rule = (action: object, phase = 'on_http_request') => ({ [phase]: [{ actions: [action] }] })
  const wrong: [string, unknown][] = [
    ['an unknown phase', { on_request: [] }],
    ['an unknown key of a rule', { on_http_request: [{ expresions: [], actions: [{ type: 'deny' }] }] }],
    ['no actions', { on_http_request: [{ actions: [] }] }],
    ['an unknown action', rule({ type: 'denny' })],
    ['an action of another phase', rule({ type: 'compress-response' })],
    ['an unsupported action', rule({ type: 'saml' })],
    ['a config that is missing', rule({ type: 'rate-limit' })],
    ['an unknown field', rule({ type: 'deny', config: { status: 403 } })],
    ['a wrong value', rule({ type: 'deny', config: { status_code: 200 } })]
  ]
  for (const [name, document] of wrong) t.notOk(Schema.Check(schema, document), name)
  t.ok(Schema.Check(schema, rule({ type: 'deny', config: { status_code: 404 } })))
  t.ok(Schema.Check(schema, rule({ type: 'deny' }, 'on_tcp_connect')))
  t.notMatch(JSON.stringify(schema), /"x-(sluice|min|max|multiple)"/, 'without marks of the compiler')
})

t.test('no change of a document, however broken, makes the checker fail', async (t) => {
  const random = generator(7)
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const texts = published.map(({ file }) => textOf(file))
  const pieces = [
    ':',
    '\n',
    ' ',
    '- ',
    '"',
    "'",
    '[',
    '{',
    '}',
    '!',
    '&a ',
    '*a',
    '|',
    '>',
    '#',
    '${',
    '}',
    '\t',
    '\u0000',
    '😀',
    '0',
    'null',
    '<<: ',
    '---\n',
    '%',
    '\\'
  ]
  for (let i = 0; i < 1500; i++) {
    let text = pick(texts)
    for (let edits = 1 + Math.floor(random() * 4); edits > 0; edits--) {
      const at = Math.floor(random() * text.length)
      const cut = random() < 0.5 ? Math.floor(random() * 20) : 0
      const other = pick(texts)
      const from = Math.floor(random() * other.length)
      text = text.slice(0, at) + (random() < 0.7 ? pick(pieces) : other.slice(from, from + 30)) + text.slice(at + cut)
    }
    const lines = text.split('\n')
    try {
      for (const { line, column, length, code, message } of check(text)) {
        const inside = line >= 1 && line <= lines.length && column >= 1 && column <= (lines[line - 1]?.length ?? 0) + 1
        if (!inside || length < 1 || code === '' || message === '') t.fail(`${line}:${column} ${code}`, { text })
      }
    } catch (error) {
      t.fail(String(error), { text, error })
    }
  }
  t.pass('all of them were answered')
})

/** Mulberry32: the same numbers on every run. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
