import t from 'tap'
import { makeFlow } from '../helpers/flow.js'
import { Kit, outcomeOf } from './kit.js'

const kit = new Kit()

t.test('set-vars keeps types, at any depth', async (t) => {
  const flow = makeFlow({ headers: ['X-N', '7'] })
  const vars = [
    { text: 'bar' },
    { whole: 7 },
    { fraction: 1.5 },
    { yes: true },
    { nothing: null },
    { list: [1, 'two', '${req.method}', ['${conn.client_port}']] },
    { map: { key: 'value', inner: { port: '${conn.client_port}' } } },
    { computed: '${int(50.5)}' },
    { mixed: 'port ${conn.client_port}!' }
  ]
  t.equal(kit.action('set-vars', { vars })(flow), undefined)
  t.equal(kit.read('vars.text', flow), 'bar')
  t.equal(kit.read('vars.whole + 1', flow), 8)
  t.equal(kit.read('vars.fraction * 2.0', flow), 3)
  t.equal(kit.read('vars.yes', flow), true)
  t.equal(kit.read('vars.nothing == null', flow), true)
  t.same(kit.read('vars.list', flow), [1, 'two', 'GET', [40_000]])
  t.equal(kit.read('vars.map.inner.port - 1', flow), 39_999)
  t.equal(kit.read('vars.computed', flow), 50)
  t.equal(kit.read('vars.mixed', flow), 'port 40000!')
})

t.test('whole numbers of a document keep their bits, and beyond 64 bits their digits', async (t) => {
  const block = `on_http_request:
  - actions:
      - type: set-vars
        config:
          vars:
            - id: 1234567890123456789
            - least: -9223372036854775808
            - hex: 0x7fffffffffffffff
            - plus: +9007199254740993
            - beyond: 9223372036854775808
            - deep: { a: [9007199254740993, 1e20] }
      - type: log
        config: { metadata: { id: 9007199254740993 } }
`
  const entries = '{"id":1234567890123456789},{"least":-9223372036854775808},{"hex":9223372036854775807}'
  const more = '{"plus":9007199254740993},{"beyond":9223372036854775808},{"deep":{"a":[9007199254740993,1e20]}}'
  const metadata = '{"type":"log","config":{"metadata":{"id":9007199254740993}}}'
  const vars = `{"type":"set-vars","config":{"vars":[${entries},${more}]}}`
  for (const text of [block, `{"on_http_request":[{"actions":[${vars},${metadata}]}]}`]) {
    const flow = makeFlow()
    kit.compile(text).policy?.phases.on_http_request?.run(flow)
    for (const [source, digits] of [
      ['vars.id == 1234567890123456789', true],
      ['vars.id + 1', '1234567890123456790'],
      ['vars.least', '-9223372036854775808'],
      ['vars.hex', '9223372036854775807'],
      ['vars.plus', '9007199254740993'],
      ["vars.beyond == '9223372036854775808'", true],
      ['vars.deep.a[0]', '9007199254740993'],
      ['vars.deep.a[1] == 1e20', true],
      ['json.encode(vars.deep.a[0])', '9007199254740993']
    ] as const)
      t.equal(kit.read(source, flow), digits, source)
    t.same(flow.results?.get('log')?.metadata, new Map([['id', 9007199254740993n]]))
  }
})

t.test('later entries see earlier ones, and the last value of a name stays', async (t) => {
  const flow = makeFlow()
  kit.actions([
    ['set-vars', { vars: [{ a: 1 }, { b: '${vars.a + 1}' }, { a: '${vars.b + 1}' }] }],
    ['set-vars', { vars: [{ c: '${vars.a * 10}' }] }]
  ])(flow)
  t.same([kit.read('vars.a', flow), kit.read('vars.b', flow), kit.read('vars.c', flow)], [3, 2, 30])
})

t.test('constants are not shared with what a policy could change, and names are plain data', async (t) => {
  const flow = makeFlow()
  const run = kit.actions([
    ['set-vars', { vars: [{ constructor: 'x' }, { m: JSON.parse('{"__proto__": {"polluted": 1}}') }] }]
  ])
  run(flow)
  t.equal(kit.read('vars.constructor', flow), 'x')
  t.equal(({} as { polluted?: number }).polluted, undefined)
})

t.test('a value that is missing fails closed', async (t) => {
  const run = kit.action('set-vars', { vars: [{ a: "${req.headers['x-missing'][0]}" }] })
  t.equal(outcomeOf(run(makeFlow())), '500 POLICY_EXPRESSION')
})

t.test('the shape of vars is told precisely', async (t) => {
  t.match(kit.problems('set-vars', { vars: { live: 'blue' } }), [/^error CONFIG_INVALID .*config\.vars: .*"- live: …"/])
  t.match(kit.problems('set-vars', { vars: [{ a: 1, b: 2 }] }), [/^error CONFIG_INVALID .*vars\[0\].*exactly 1/])
  t.match(kit.problems('set-vars', { vars: [{}] }), [/^error CONFIG_INVALID .*vars\[0\]/])
  t.match(kit.problems('set-vars', { vars: [] }), [/^error CONFIG_INVALID .*vars/])
  t.match(kit.problems('set-vars', { vars: ['a'] }), [/^error CONFIG_INVALID .*vars\[0\]/])
  t.match(kit.problems('set-vars', {}), [/^error CONFIG_INVALID .*vars/])
  t.match(kit.problems('set-vars', undefined), [/^error CONFIG_INVALID/])
  t.match(kit.problems('set-vars', { vars: [{ 'a-b': 1 }] }), [/^error CONFIG_INVALID .*vars\[0\].*a-b/])
  t.match(kit.problems('set-vars', { vars: [{ a: '${1 +}' }] }), [/^error EXPRESSION_SYNTAX .*vars\[0\]\.a/])
  let deep: unknown = 1
  for (let i = 0; i < 10; i++) deep = [deep]
  t.same(kit.problems('set-vars', { vars: [{ deep }] }), [])
  t.match(kit.problems('set-vars', { vars: [{ deep: [deep] }] }), [/^error CONFIG_INVALID .*at most 10 deep/])
})

t.test('log records plain data in order and publishes the last', async (t) => {
  const flow = makeFlow({ url: 'http://app.example.com/x' })
  t.equal(
    kit.actions([
      [
        'log',
        {
          metadata: {
            path: '${req.url.path}',
            port: '${conn.client_port}',
            ok: false,
            nested: { list: ['${req.method}'] }
          }
        }
      ],
      ['log', { metadata: { second: 'port ${conn.client_port}' } }]
    ])(flow),
    undefined
  )
  t.same(flow.logs, [{ path: '/x', port: 40_000, ok: false, nested: { list: ['GET'] } }, { second: 'port 40000' }])
  t.equal(kit.read('actions.service.log.metadata.second', flow), 'port 40000')
})

t.test('log may be without metadata, and runs in all phases that it is allowed in', async (t) => {
  const flow = makeFlow({ request: false })
  kit.action('log', undefined, 'on_tcp_connect')(flow)
  t.same(flow.logs, [{}])
  const answer = makeFlow({ response: { status: 404 } })
  kit.action('log', { metadata: { status: '${res.status_code}' } }, 'on_http_response')(answer)
  t.same(answer.logs, [{ status: 404 }])
  t.match(kit.problems('log', { metadata: ['x'] }), [/^error CONFIG_INVALID .*metadata/])
})

t.test('a secret in metadata is warned of', async (t) => {
  const metadata = { a: [{ b: "key ${secrets.get('vault', 'password')}" }], c: 'secrets.get is only a word here' }
  t.match(kit.problems('log', { metadata }), [/^warning SECRET_LOGGED .*metadata\.a\[0\]\.b/])
})

t.test('what is recorded becomes data when it is read, and says why where it is too much', async (t) => {
  let made = 0
  const flow = makeFlow({})
  t.equal(flow.logs, undefined)
  flow.record(() => ({ made: ++made }))
  t.equal(made, 0)
  t.same(flow.logs, [{ made: 1 }])
  const large = makeFlow({})
  const ten = (name: string) => Array(10).fill(name).join()
  const nested = ['b', 'c', 'd', 'e', 'f'].reduceRight(
    (body, name, i) => `cel.bind(${name}, [${ten('abcde'[i] as string)}], ${body})`,
    'f'
  )
  kit.action('log', { metadata: { list: `\${cel.bind(a, [1, 2, 3], ${nested})}` } })(large)
  t.match(large.logs, [{ error: /more than 100000 items/ }])
})
