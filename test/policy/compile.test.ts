import t from 'tap'
import Type, { type TSchema } from 'typebox'
import Schema from 'typebox/schema'
import { actions as registry } from '../../src/features/registry.js'
import { type Action, defineAction, defineUnsupported, type Scope } from '../../src/policy/action.js'
import { readConfig } from '../../src/policy/config-reader.js'
import { readDocument } from '../../src/policy/document.js'
import { config, headerMap } from '../../src/policy/fields.js'
import { dataOf } from '../../src/policy/tree.js'
import { KEYWORDS } from '../../src/schema/schema.js'
import { any, choice, duration, expression, map } from '../../src/schema/values.js'
import { compile, compileValid, phaseOf, short } from './stand.js'

const all = ['on_tcp_connect', 'on_http_request', 'on_http_response'] as const
const never = {
  summary: 'Does nothing.',
  example: { policy: '' },
  phases: all,
  configOptional: true,
  terminates: 'never'
} as const

const fields = config({
  name: Type.String({ minLength: 1, maxLength: 8 }),
  capacity: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 7 })),
  share: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
  enforce: Type.Optional(Type.Boolean({ default: true })),
  mode: Type.Optional(choice(['sliding', 'fixed'], { description: '' })),
  status: Type.Optional(Type.Enum([301, 302])),
  rate: Type.Optional(duration({ description: '', min: 60_000, max: 86_400_000, multiple: 10_000 })),
  headers: Type.Optional(headerMap({ description: '', max: 2 })),
  keys: Type.Optional(Type.Array(expression({ description: '' }), { minItems: 1, maxItems: 2, uniqueItems: true })),
  pair: Type.Optional(Type.Array(map(any({ description: '' }), { description: '', min: 1, max: 1 }))),
  user: Type.Optional(Type.Union([Type.String({ pattern: '^[a-z]+:' }), config({ name: Type.String() })]))
})

function recording(): { actions: readonly Action[]; configs: unknown[] } {
  const configs: unknown[] = []
  const actions: readonly Action[] = [
    defineAction({
      type: 'limit',
      ...never,
      configOptional: false,
      config: fields,
      compile: (value) => {
        configs.push(value)
        return () => undefined
      }
    }),
    defineAction({
      type: 'connect',
      ...never,
      phases: ['on_tcp_connect'],
      config: config({}),
      compile: () => () => undefined
    }),
    defineAction({ type: 'end', ...never, terminates: 'always', config: config({}), compile: () => () => undefined }),
    defineUnsupported('retired', 'it was retired in 2026')
  ]
  return { actions, configs }
}

function withConfig(yaml: string, type = 'limit') {
  return `on_http_request:\n  - actions:\n      - type: ${type}\n        config: ${yaml}\n`
}

t.test('a config is checked where it stands', async (t) => {
  const at = (path: string) => `on_http_request[0].actions[0].config${path}`
  const cases: [yaml: string, expected: string[], message: RegExp][] = [
    ['{}', [`4:17 CONFIG_INVALID ${at('')}`], /`name` is missing; it takes a text/],
    ['{name: }', [`4:18 CONFIG_INVALID ${at('.name')}`], /`name` is missing/],
    ['{name: ""}', [`4:24 CONFIG_INVALID ${at('.name')}`], /must not be empty/],
    ['{name: 123456789}', [`4:24 CONFIG_INVALID ${at('.name')}`], /at most 8 characters, not 9/],
    ['{name: [a]}', [`4:24 CONFIG_INVALID ${at('.name')}`], /must be a text, not a list/],
    ['{name: a, nam: b}', [`4:27 CONFIG_INVALID ${at('.nam')}`], /unknown field "nam".*did you mean "name"/],
    ['{name: a, capacity: 0}', [`4:37 CONFIG_INVALID ${at('.capacity')}`], /a whole number from 1 to 100, not 0/],
    ['{name: a, capacity: 1.5}', [`4:37 CONFIG_INVALID ${at('.capacity')}`], /not the number 1.5/],
    [
      '{name: a, capacity: "5"}',
      [`4:37 CONFIG_INVALID ${at('.capacity')}`],
      /not a text; write the number without quotes/
    ],
    ['{name: a, share: 0}', [`4:34 CONFIG_INVALID ${at('.share')}`], /more than 0, not 0/],
    ['{name: a, share: .nan}', [`4:34 CONFIG_INVALID ${at('.share')}`], /a number/],
    ['{name: a, enforce: yes}', [`4:36 CONFIG_INVALID ${at('.enforce')}`], /true or false/],
    [
      '{name: a, mode: slidin}',
      [`4:33 CONFIG_INVALID ${at('.mode')}`],
      /one of "sliding", "fixed", not "slidin"; did you mean "sliding"/
    ],
    ['{name: a, status: 303}', [`4:35 CONFIG_INVALID ${at('.status')}`], /one of 301, 302/],
    ['{name: a, rate: sixty}', [`4:33 CONFIG_INVALID ${at('.rate')}`], /a number without a unit counts seconds/],
    ['{name: a, rate: 30s}', [`4:33 CONFIG_INVALID ${at('.rate')}`], /from 1m to 24h, not 30s/],
    ['{name: a, rate: 61s}', [`4:33 CONFIG_INVALID ${at('.rate')}`], /multiple of 10s/],
    ['{name: a, headers: {a: 1, b: 2, c: 3}}', [`4:36 CONFIG_INVALID ${at('.headers')}`], /at most 2 entries, not 3/],
    [
      '{name: a, headers: {a: [1]}}',
      [`4:40 CONFIG_INVALID ${at('.headers.a')}`],
      /`headers.a` must be a text, not a list/
    ],
    ['{name: a, headers: {a: }}', [`4:37 CONFIG_INVALID ${at('.headers.a')}`], /not null/],
    ['{name: a, keys: []}', [`4:33 CONFIG_INVALID ${at('.keys')}`], /at least 1 item/],
    [
      '{name: a, keys: [1]}',
      [`4:34 CONFIG_INVALID ${at('.keys[0]')}`],
      /a CEL expression, not the number 1; put it in/
    ],
    ['{name: a, keys: {a: b}}', [`4:33 CONFIG_INVALID ${at('.keys')}`], /a list.*not a map; begin each item/],
    ['{name: a, keys: [x, x]}', [`4:33 CONFIG_INVALID ${at('.keys')}`], /item 1 is the same as item 0/],
    ['{name: a, pair: [{a: 1, b: 2}]}', [`4:34 CONFIG_INVALID ${at('.pair[0]')}`], /exactly 1 entry, not 2/],
    ['{name: a, user: [b]}', [`4:33 CONFIG_INVALID ${at('.user')}`], /a text or a map, not a list/],
    ['{name: a, user: {}}', [`4:27 CONFIG_INVALID ${at('.user')}`], /`user.name` is missing/],
    ['{name: a, user: b}', [`4:33 CONFIG_INVALID ${at('.user')}`], /pattern/]
  ]
  t.same(short(compile(withConfig('{name: a, rate: 60}'), recording().actions).problems), [], 'seconds')
  for (const [yaml, expected, message] of cases) {
    const { policy, problems } = compile(withConfig(yaml), recording().actions)
    t.same(short(problems), expected, yaml)
    t.match(problems[0]?.message, message, yaml)
    t.equal(policy, undefined, yaml)
  }
})

t.test('all problems are found in one pass, in order of the text', async (t) => {
  const text =
    'on_http_request:\n  - expressions: [BAD, int]\n    actions:\n      - type: nothing\n      - type: limit\n        config: {nam: a, capacity: 0, name: b}\nfoo: 1\n'
  t.same(short(compile(text, recording().actions).problems), [
    '2:19 EXPRESSION_SYNTAX on_http_request[0].expressions[0]',
    '2:24 EXPRESSION_TYPE on_http_request[0].expressions[1]',
    '4:15 ACTION_UNKNOWN on_http_request[0].actions[0].type',
    '6:18 CONFIG_INVALID on_http_request[0].actions[1].config.nam',
    '6:36 CONFIG_INVALID on_http_request[0].actions[1].config.capacity',
    '7:1 PHASE_UNKNOWN foo'
  ])
})

t.test('a valid config reaches its action as data, with defaults and texts as written', async (t) => {
  const { actions, configs } = recording()
  compileValid(
    withConfig(
      '{name: 1.30, mode: sliding, status: 302, headers: {a: 0x1F, b: true}, keys: ["1"], pair: [{k: 1.30}], user: {name: null-ish}}'
    ),
    actions
  )
  t.same(configs, [
    {
      name: '1.30',
      mode: 'sliding',
      status: 302,
      headers: { a: '0x1F', b: 'true' },
      keys: ['1'],
      pair: [{ k: 1.3 }],
      user: { name: 'null-ish' },
      capacity: 7,
      enforce: true
    }
  ])
  compileValid(withConfig('{name: a, capacity: , headers: ~}'), actions)
  t.same(configs[1], { name: 'a', capacity: 7, enforce: true }, 'a field without a value is absent')
})

t.test('actions must be known, supported, and stand in one of their phases', async (t) => {
  const { actions } = recording()
  const first = (type: string) => compile(withConfig('{}', type), actions).problems[0]
  t.match(first('limt'), { code: 'ACTION_UNKNOWN', message: /did you mean "limit"\?/, line: 3, column: 15, length: 4 })
  t.match(first('retired'), { code: 'ACTION_UNSUPPORTED', message: /it was retired in 2026/ })
  t.match(first('connect'), {
    code: 'ACTION_PHASE',
    message: /cannot stand in on_http_request; it is allowed in on_tcp_connect/
  })
  t.match(compile(withConfig('', 'limit'), actions).problems[0], {
    code: 'CONFIG_INVALID',
    message: /needs a `config` with name, /
  })
  t.ok(compileValid(withConfig('', 'end'), actions), 'an optional config may be left out')
})

t.test('what can never run is told of', async (t) => {
  const text = 'on_http_request:\n  - actions: [{type: end}, {type: end}, {type: end}]\n  - actions: [{type: end}]\n'
  t.same(short(compile(text, recording().actions).problems), [
    '(2:35 ACTION_UNREACHABLE on_http_request[0].actions[1].type)',
    '(3:22 RULE_UNREACHABLE on_http_request[1])'
  ])
})

t.test('a mistake inside a text is shown at its own characters', async (t) => {
  const place = (value: string) => {
    const text = `on_http_request:\n  - expressions:\n      - ${value}\n    actions: [{type: end}]\n`
    const problem = compile(text, recording().actions).problems[0]
    return [problem?.line, problem?.column, problem?.length, problem?.offset]
  }
  t.same(place('a == BAD'), [3, 14, 3, 5], 'plain')
  t.same(place("'it''s BAD'"), [3, 16, 3, 5], 'single quotes')
  t.same(place('"\\"\\u0041\\U0001F600\\n BAD"'), [3, 31, 3, 6], 'double quotes with escapes')
  t.same(place('|\n        one\n\n          two BAD\n'), [6, 15, 3, 11], 'literal block')
  t.same(place('>-\n        one\n        two\n\n        BAD\n'), [7, 9, 3, 8], 'folded block')
  t.same(place('one\n        two   BAD'), [4, 15, 3, 10], 'plain over two lines')
  t.same(place('"one \\\n        two\n\n        BAD"'), [6, 9, 3, 8], 'double quotes over four lines')
})

t.test('equal keys of one document keep state of their own, in order of the text', async (t) => {
  const keys: unknown[] = []
  const keep = {
    keep: <T>(key: readonly unknown[], make: (identity: string) => T) => {
      keys.push(key)
      return make(JSON.stringify(key))
    }
  }
  const action = defineAction({
    type: 'a',
    ...never,
    config: config({}),
    compile: (_config, scope: Scope) => {
      scope.keep(['a', 1], () => 0)
      return () => undefined
    }
  })
  compileValid(
    'on_http_request: [{actions: [{type: a}, {type: a}]}]\non_http_response: [{actions: [{type: a}]}]',
    [action],
    { keep }
  )
  t.same(keys, [
    ['policy', 'api', ['a', 1]],
    ['policy', 'api', ['a', 1], 2],
    ['policy', 'api', ['a', 1], 3]
  ])
})

t.test('a compiled policy has its rules by phase; an empty phase is null', async (t) => {
  const policy = compileValid(
    'on_tcp_connect: [{name: x, actions: [{type: connect}]}]\non_http_request: []',
    recording().actions
  )
  t.equal(policy.owner, 'api')
  t.same(
    Object.entries(policy.phases)
      .filter(([, phase]) => phase !== null)
      .map(([name]) => name),
    ['on_tcp_connect']
  )
  t.equal(phaseOf(policy, 'on_tcp_connect').rules[0]?.name, 'x')
})

t.test('a doubt is a warning and the policy runs', async (t) => {
  const { policy, problems } = compile(
    'on_http_request: [{expressions: [DOUBT], actions: [{type: end}]}]',
    recording().actions
  )
  t.same(short(problems), ['(1:34 DATA_UNAVAILABLE on_http_request[0].expressions[0])'])
  t.ok(policy)
})

t.test('every config schema keeps to the keywords that are checked', async (t) => {
  for (const action of [...registry, ...recording().actions]) {
    if (action.availability === 'unsupported') continue
    for (const keyword of keywordsOf(action.config)) t.ok(KEYWORDS.has(keyword), `${action.type}: ${keyword}`)
  }
})

t.test('what passes here passes the schema, and what the schema refuses is refused here', async (t) => {
  const random = generator(20_261_120)
  let refused = 0
  for (let i = 0; i < 3000; i++) {
    const text = withConfig(JSON.stringify(randomConfig(random)))
    const node = readDocument(text).document.phases.on_http_request[0]?.actions[0]?.config
    if (node === undefined) throw new Error(text)
    const problems: string[] = []
    const data = readConfig(fields, node, (_path, message) => problems.push(message))
    // Texts are read leniently, so the schema is asked about what came out, and about the input when nothing was typed anew.
    if (problems.length === 0) t.ok(Schema.Check(fields, data), text)
    else if (Schema.Check(fields, dataOf(node))) t.fail(`refused without need: ${text} ${problems.join('; ')}`)
    refused += problems.length > 0 ? 1 : 0
  }
  t.ok(refused > 500 && refused < 2900, `${refused} of 3000 refused: both sides are tried`)
})

function keywordsOf(schema: TSchema | unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const below = Object.entries(schema).flatMap(([key, value]) => {
    if (key === 'properties') return Object.values(value as object).flatMap(keywordsOf)
    if (key === 'anyOf' || key === 'oneOf') return (value as unknown[]).flatMap(keywordsOf)
    return key === 'items' || key === 'additionalProperties' ? keywordsOf(value) : []
  })
  return [...new Set([...Object.keys(schema), ...below])]
}

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

function randomConfig(random: () => number): object {
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
  const values: Record<string, readonly unknown[]> = {
    name: ['a', 'abc', '', '123456789', '12345678', 'é😀é😀é😀é😀', '😀'.repeat(9), ['x'], {}],
    capacity: [1, 100, 0, 101, 1.5, '1', true],
    share: [0, 0.5, 1, 1.1, 'x'],
    enforce: [true, false, 'true', 1],
    mode: ['sliding', 'fixed', 'other', {}],
    status: [301, 302, 303, '301'],
    rate: ['60s', '1h', []],
    headers: [{}, { a: 'x' }, { a: 'x', b: 'y' }, { a: 'x', b: 'y', c: 'z' }, { a: [] }, 'x'],
    keys: [[], ['a'], ['a', 'b'], ['a', 'a'], ['a', 'b', 'c'], [''], 'a', [[]]],
    pair: [[], [{ a: 1 }], [{ a: 1, b: 2 }], [{}], [1], { a: 1 }],
    user: ['a:b', 'A', { name: 'a' }, {}, { name: 'a', more: 1 }, [1]],
    other: [1]
  }
  const chosen = Object.entries(values).filter(([key]) =>
    key === 'name' ? random() < 0.9 : random() < (key === 'other' ? 0.02 : 0.2)
  )
  return Object.fromEntries(chosen.map(([key, options]) => [key, random() < 0.75 ? options[0] : pick(options)]))
}

t.test(
  'of very many problems the first hundred are shown, and a valid policy may have more doubts than that',
  async (t) => {
    const rules = (expression: string) =>
      JSON.stringify({ on_http_request: Array(500).fill({ expressions: [expression], actions: [{ type: 'end' }] }) })
    const wrong = compile(rules('BAD'), recording().actions)
    t.equal(wrong.problems.length, 100)
    t.match(wrong.problems.at(-1)?.message, /no more than 100 errors are shown/)
    t.equal(wrong.policy, undefined)
    const doubtful = compile(rules('DOUBT'), recording().actions)
    t.equal(doubtful.problems.length, 100)
    t.equal(doubtful.policy && phaseOf(doubtful.policy).rules.length, 500)
  }
)
