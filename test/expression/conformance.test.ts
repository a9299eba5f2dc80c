import { readFileSync } from 'node:fs'
import t from 'tap'
import { documentedFunctions } from '../../src/expression/catalogue.js'
import { Duration, UnsignedInt } from '../../src/expression/cel-parser.js'
import { EvaluationError } from '../../src/expression/expression.js'
import { Language } from '../../src/expression/expressions.js'
import { equals, typeOf } from '../../src/expression/values.js'
import { Flow } from '../../src/flow/flow.js'
import { fixture } from '../helpers/files.js'

const FIXTURES = fixture('cel/')

interface Tagged {
  readonly [tag: string]: unknown
}
interface Case {
  readonly name: string
  readonly expr: string
  readonly expected: { readonly value?: Tagged; readonly type?: string; readonly error?: unknown }
  readonly bindings?: Readonly<Record<string, Tagged>>
  readonly type_env?: readonly { readonly name: string; readonly type?: string }[]
  readonly container?: string
  readonly check_only?: boolean
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, FIXTURES), 'utf8')) as T
}

function untagged(tagged: Tagged): unknown {
  const [[tag, payload] = ['null', null]] = Object.entries(tagged)
  switch (tag) {
    case 'int':
      return BigInt(payload as string)
    case 'uint':
      return new UnsignedInt(BigInt(payload as string))
    case 'double':
      return Number(payload)
    case 'bytes':
      return new Uint8Array(Buffer.from(payload as string, 'base64'))
    case 'list':
      return (payload as Tagged[]).map(untagged)
    case 'map':
      return new Map((payload as [Tagged, Tagged][]).map(([key, value]) => [untagged(key), untagged(value)]))
    case 'timestamp': {
      const { seconds, nanos } = payload as { seconds: string; nanos: number }
      return new Date(Number(seconds) * 1000 + nanos / 1e6)
    }
    case 'duration': {
      const { seconds, nanos } = payload as { seconds: string; nanos: number }
      return new Duration(BigInt(seconds), nanos)
    }
    case 'null':
      return null
    case 'type':
      return { type: payload }
    default:
      return payload
  }
}

/** Equal in value and in type, inside lists and maps too. */
function same(actual: unknown, expected: unknown): boolean {
  if (typeof expected === 'object' && expected !== null && 'type' in expected) {
    const { name } = actual as { name?: string }
    return name === expected.type || (name === 'null' && expected.type === 'null_type')
  }
  if (typeOf(actual) !== typeOf(expected)) return false
  if (Array.isArray(expected)) {
    return (
      (actual as unknown[]).length === expected.length &&
      expected.every((item, i) => same((actual as unknown[])[i], item))
    )
  }
  if (expected instanceof Map) {
    const entries = [...(actual as Map<unknown, unknown>)]
    if (entries.length !== expected.size) return false
    return [...expected].every(([key, value]) => entries.some(([k, v]) => equals(k, key) && same(v, value)))
  }
  if (typeof expected === 'number' && Number.isNaN(expected)) return Number.isNaN(actual)
  return equals(actual, expected)
}

const flow = new Flow(
  {
    id: 1,
    listener: '',
    peer: { address: '192.0.2.1', port: 1 },
    local: { address: '192.0.2.2', port: 2 },
    startedAt: 0,
    bytesIn: 0,
    bytesOut: 0
  },
  { id: '', protocol: 'http', host: 'a.test', port: 80, region: '' },
  '192.0.2.1',
  1
)

const functions = documentedFunctions({ random: () => 0 })
const languages = new Map<string, Language>()
let bindings: Readonly<Record<string, Tagged>> = {}

/** A language with the variables of a case; their values come from `bindings`. */
function languageFor(one: Case): Language {
  const names = [...new Set([...Object.keys(one.bindings ?? {}), ...(one.type_env ?? []).map(({ name }) => name)])]
  const key = names.sort().join()
  const known = languages.get(key)
  if (known !== undefined) return known
  const variables = names.map((path) => ({
    path,
    type: 'dyn',
    optional: true as const,
    read: () => (Object.hasOwn(bindings, path) ? untagged(bindings[path] as Tagged) : undefined)
  }))
  const language = new Language(variables, functions)
  languages.set(key, language)
  return language
}

type Outcome = 'passed' | 'refused' | 'wrong'

function run(one: Case): Outcome {
  bindings = one.bindings ?? {}
  const compiled = languageFor(one).expression(one.expr, 'on_http_request')
  const { expected } = one
  if (!compiled.ok) return expected.error === undefined ? 'refused' : 'passed'
  if (one.check_only === true && expected.value === undefined)
    return compiled.value.type === expected.type ? 'passed' : 'refused'
  try {
    const value = compiled.value.evaluate(flow)
    if (expected.error !== undefined) return 'wrong'
    return same(value, expected.value === undefined ? true : untagged(expected.value)) ? 'passed' : 'wrong'
  } catch (error) {
    if (!(error instanceof EvaluationError)) throw error
    return expected.error === undefined ? 'refused' : 'passed'
  }
}

t.test('no suite of CEL conformance cases gets worse', async (t) => {
  const baseline = read<Record<string, number>>('baseline.json')
  const wrong: string[] = []
  for (const [suite, passing] of Object.entries(baseline)) {
    const cases = read<Case[]>(`${suite}.json`)
    const outcomes = cases.map((one) => ({ name: one.name, outcome: run(one) }))
    const passed = outcomes.filter(({ outcome }) => outcome === 'passed').length
    for (const { name, outcome } of outcomes) if (outcome === 'wrong') wrong.push(`${suite} ${name}`)
    t.comment(`${suite}: ${passed} of ${cases.length}`)
    t.ok(passed >= passing, `${suite} passes at least ${passing} of ${cases.length}`)
    if (process.env.CEL_REPORT === '1') {
      for (const { name, outcome } of outcomes) if (outcome !== 'passed') t.comment(`  ${outcome} ${suite} ${name}`)
    }
  }
  const known = new Set(read<string[]>('known-wrong.json'))
  t.same(
    wrong.filter((name) => !known.has(name)),
    [],
    'every wrong answer is known'
  )
})
