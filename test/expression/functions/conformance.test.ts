import { readFileSync } from 'node:fs'
import { Environment } from 'cel-js'
import t from 'tap'
import { EvaluationError } from '../../../src/expression/expression.js'
import { listFunctions } from '../../../src/expression/functions/lists.js'
import { stringFunctions } from '../../../src/expression/functions/strings.js'
import { timeFunctions } from '../../../src/expression/functions/time.js'
import { fixture } from '../../helpers/files.js'
import { thrown } from './call.js'

/** Cases of the conformance suite of CEL (strings extension, timestamps). */
interface Case {
  readonly section: string
  readonly name: string
  readonly expr: string
  readonly bindings?: Readonly<Record<string, Tagged>>
  readonly expected: { readonly value?: Tagged; readonly error?: readonly string[] }
}

interface Tagged {
  readonly string?: string
  readonly bool?: boolean
  readonly int?: string
  readonly duration?: { readonly seconds: string; readonly nanos: number }
}

const file = fixture('cel-functions/cases.json')
const cases = JSON.parse(readFileSync(file, 'utf8')) as readonly Case[]
const definitions = [...stringFunctions, ...listFunctions, ...timeFunctions]

/** A map literal of the engine is a plain object; our functions get maps as `Map`. */
function mapped(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(mapped)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return new Map(Object.entries(value).map(([key, item]) => [key, mapped(item)]))
}

/** The engine has some of the names already, so that every function of ours gets the prefix `x_` here. */
function environment(): Environment {
  const environment = new Environment({ homogeneousAggregateLiterals: false, unlistedVariablesAreDyn: true })
  for (const { signature, run } of definitions) {
    const [, receiver = '', name = '', rest = ''] = /^(.*\.)?(\w+)(\(.*)$/.exec(signature) ?? []
    const namespaced = receiver === 'strings.' || receiver === 'lists.'
    environment.registerFunction(`${namespaced ? '' : receiver}x_${name}${rest}`, (...args) =>
      thrown(run(...args.map(mapped)))
    )
  }
  return environment
}

const names = new Set(definitions.map(({ signature }) => /(\w+)\(/.exec(signature)![1]!))

function renamed(source: string): string {
  return source.replace(/(?:\b(?:strings|lists)\.)?\b(\w+)\(/g, (call, name: string) =>
    names.has(name) ? `x_${name}(` : call
  )
}

function bound(engine: Environment, { string, duration }: Tagged): unknown {
  if (string !== undefined) return string
  const { seconds, nanos } = duration!
  return engine.evaluate(`duration("${seconds}.${String(nanos).padStart(9, '0')}s")`)
}

function plain({ string, bool, int }: Tagged): unknown {
  return string ?? bool ?? (int === undefined ? undefined : BigInt(int))
}

t.test('the published cases of the strings extension and of timestamps hold', async (t) => {
  const engine = environment()
  t.ok(cases.length > 200, 'there are cases')
  for (const { section, name, expr, bindings = {}, expected } of cases) {
    const variables = Object.fromEntries(Object.entries(bindings).map(([key, value]) => [key, bound(engine, value)]))
    const run = () => engine.evaluate(renamed(expr), variables)
    if (expected.value === undefined) t.throws(run, `${section}: ${name}: ${expr}`)
    else t.equal(run(), plain(expected.value), `${section}: ${name}: ${expr}`)
  }
})

t.test('what goes wrong at evaluation is our own error', async (t) => {
  const engine = environment()
  for (const { name, expr } of cases.filter(
    ({ section }) => section === 'value_errors' || section === 'format_errors'
  )) {
    try {
      engine.evaluate(renamed(expr))
      t.fail(`${name}: answered`)
    } catch (error) {
      const cause = (error as Error).cause ?? error
      t.ok(cause instanceof EvaluationError, `${name}: ${(error as Error).constructor.name}`)
    }
  }
})
