import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { actions } from '../../src/features/registry.js'
import { compilePolicy } from '../../src/policy/compile.js'
import { Kit } from '../features/kit.js'
import { makeFlow } from '../helpers/flow.js'

const kit = new Kit()
const LOGIN = { type: 'oauth', config: { provider: 'google' } }
const EMAIL = '${actions.ngrok.oauth.identity.email}'
const add = (name: string, value = EMAIL) => ({ type: 'add-headers', config: { headers: { [name]: value } } })
const remove = (...headers: string[]) => ({ type: 'remove-headers', config: { headers } })
const set = (name: string, value: unknown) => ({ type: 'set-vars', config: { vars: [{ [name]: value }] } })

function forgeable(...rules: object[]): string[] {
  const { problems } = kit.compile({ on_http_request: rules })
  t.same(
    problems.filter(({ severity }) => severity === 'error'),
    []
  )
  return problems.filter(({ code }) => code === 'HEADER_FORGEABLE').map(({ path }) => path)
}

t.test('a header that says who the user is must be removed first', async (t) => {
  const at = 'on_http_request[0].actions[1].config.headers.X-User'
  t.same(forgeable({ actions: [LOGIN, add('X-User')] }), [at])
  t.same(forgeable({ actions: [LOGIN, add('X-User'), remove('x-user')] }), [at], 'afterwards is too late')
  t.same(forgeable({ actions: [remove('x-user'), LOGIN, add('X-User')] }), [])
  t.same(forgeable({ actions: [remove('X_USER'), LOGIN, add('x-user')] }), [], 'every spelling goes')
  t.same(forgeable({ actions: [remove('x-user')] }, { actions: [LOGIN, add('x-user')] }), [])
  t.equal(forgeable({ actions: [remove('x-users')] }, { actions: [LOGIN, add('x-user')] }).length, 1)
  const put = { expressions: ["req.method == 'PUT'"], actions: [remove('x-user')] }
  t.equal(forgeable(put, { actions: [LOGIN, add('x-user')] }).length, 1, 'only sometimes')
  t.same(forgeable(put, { ...put, actions: [LOGIN, add('x-user')] }), [], 'whenever it is added')
})

t.test('what is vouched for is followed, and nothing else', async (t) => {
  t.equal(forgeable({ actions: [LOGIN, set('who', { a: [EMAIL] }), add('x-user', '${vars.who.a[0]}')] }).length, 1)
  t.equal(forgeable({ actions: [add('x-sub', '${actions.service.jwt_validation.tokens[0].payload.sub}')] }).length, 1)
  t.equal(forgeable({ actions: [add('x-client', '${conn.tls.client.subject.common_name}')] }).length, 1)
  t.same(forgeable({ actions: [set('who', '${req.method}'), add('x-method', '${vars.who}')] }), [])
  t.same(forgeable({ actions: [add('x-country', '${conn.geo.country_code}'), add('x-fixed', 'a')] }), [])
  const { problems } = kit.compile({ on_http_response: [{ actions: [add('x-user')] }] })
  t.same(problems, [], 'clients send no response')
})

t.test('removing a header of a request takes its other spellings with it', async (t) => {
  const headers = ['X-User', 'a', 'x_user', 'b', 'X-Users', 'c', 'X_USER', 'd']
  const flow = makeFlow({ headers })
  kit.action('remove-headers', { headers: ['x-user'] })(flow)
  t.same(
    flow.request?.headers.list.filter((text) => /user/i.test(text)),
    ['X-Users']
  )
  t.same(kit.read('actions.service.remove_headers.headers_removed', flow), ['x-user'])
  const answer = makeFlow({ response: { headers } })
  kit.action('remove-headers', { headers: ['x-user'] }, 'on_http_response')(answer)
  t.same(answer.response?.headers.list, ['x_user', 'b', 'X-Users', 'c', 'X_USER', 'd'], 'an answer keeps them')
})

t.test('what we publish neither fails open nor lets a client forge', async (t) => {
  const root = process.cwd()
  const readme = readFileSync(join(root, 'docs', 'policies.md'), 'utf8')
  const examples = [...readme.matchAll(/```yaml\n(on_[\s\S]*?)```/g)].map(([, text]) => text as string)
  const folder = join(root, 'config', 'policies')
  const files = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'))
  t.ok(examples.length > 3 && files.length > 3)
  for (const text of [...examples, ...files]) {
    const keep = { keep: <T>(key: readonly unknown[], make: (identity: string) => T): T => make(JSON.stringify(key)) }
    const { problems } = compilePolicy(text, {
      owner: 'readme',
      services: kit.services,
      keep,
      actions,
      unavailable: 'warn'
    })
    t.same(
      problems.filter(({ code }) => code === 'RULE_FAILS_OPEN' || code === 'HEADER_FORGEABLE'),
      [],
      text.slice(0, 60)
    )
  }
})
