import t from 'tap'
import { documentedFunctions } from '../../src/expression/catalogue.js'
import { fastGrowth } from '../helpers/growth.js'
import { textFamilies, textOf } from '../helpers/text-families.js'
import { sampleExpressions, sampleFlow } from './sample-flow.js'

/** Half of what fits into the head of a request: enough for what is quadratic to take hundreds of milliseconds. */
const FIELD = 30_000
const TEXT = "req.headers['x'][0]"

/** Arguments that hold the text of a client, and those that do not, by their type. */
const WITH_TEXT: Readonly<Record<string, string>> = {
  string: TEXT,
  dyn: TEXT,
  bytes: `bytes(${TEXT})`,
  list: `[${TEXT}]`,
  'list<T>': `[${TEXT}]`,
  'list<string>': `[${TEXT}]`,
  map: `{'a': ${TEXT}}`
}
const PLAIN: Readonly<Record<string, string>> = {
  string: "'a'",
  dyn: "'a'",
  bytes: "b'a'",
  list: "['a']",
  'list<T>': "['a']",
  'list<string>': "['a']",
  map: "{'a': 1}",
  int: '2'
}

/** An argument without text of a client; some functions take few texts. */
function plain(name: string, type: string): string | undefined {
  const text = /inCidrRange/.test(name)
    ? "'10.0.0.0/8'"
    : /^(?:hash\.)?(?:crc|md5|sha|xxhash)/.test(name)
      ? "'hex'"
      : undefined
  if (text === undefined) return PLAIN[type]
  return type === 'string' ? text : `[${text}]`
}

/** Calls of a function, each with the text in another place. */
function callsOf(signature: string): string[] {
  const [, receiver, name = '', list = ''] =
    /^(?:((?:string|bytes|list|map)(?:<\w+>)?)\.)?([\w.]+)\((.*)\):/.exec(signature) ?? []
  const types = [...(receiver === undefined ? [] : [receiver]), ...(list === '' ? [] : list.split(', '))]
  return types.flatMap((type, place) => {
    if (!Object.hasOwn(WITH_TEXT, type)) return []
    const given = types.map((one, i) => (i === place ? WITH_TEXT[one] : plain(name, one)))
    if (given.includes(undefined)) return []
    return receiver === undefined ? [`${name}(${given.join()})`] : [`${given[0]}.${name}(${given.slice(1).join()})`]
  })
}

/** What reads a field of a request by its grammar, with the name of the field. */
const READERS: readonly (readonly [field: string, expression: string])[] = [
  ['Cookie', 'size(req.cookies)'],
  ['Content-Type', 'size(req.content_type.parameters)'],
  ['Content-Encoding', 'size(req.content_encoding)'],
  ['User-Agent', 'req.user_agent.name'],
  ['User-Agent', 'req.user_agent.os_version'],
  ['X', `${TEXT}.matches('^(a+)+$')`],
  ['X', `${TEXT}.matches('(.*)(.*)(.*)x$')`],
  ['X', `[${TEXT}, ${TEXT}].distinct().sort().size()`],
  ['X', `${TEXT}.split('').size()`],
  ['X', `${TEXT}.split(',').distinct().sort().join('-').size()`]
]

t.test('what an expression costs grows with the text of the client alone', async (t) => {
  const expressions = sampleExpressions()
  const calls = documentedFunctions({ random: () => 0.5 }).flatMap(({ signature }) => callsOf(signature))
  t.ok(calls.length > 100, `${calls.length} calls`)
  const read = [...new Set(calls)].map((call) => ['X', call] as const)
  for (const [field, source] of [...read, ...READERS]) {
    const compiled = expressions.expression(source, /Res/.test(source) ? 'on_http_response' : 'on_http_request')
    if (!compiled.ok) {
      t.fail(`${source}: ${compiled.problems[0]?.message}`)
      continue
    }
    for (const family of Object.keys(textFamilies)) {
      const growth = await fastGrowth(
        FIELD,
        (size) => sampleFlow({ headers: [field, textOf(family, size)] }),
        (flow) => compiled.value.outcome(flow)
      )
      if (growth !== undefined) t.same(growth, undefined, `${source}, ${family}`)
    }
  }
})
