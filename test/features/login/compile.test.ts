import t from 'tap'
import { Kit } from '../kit.js'
import { Browser } from './browser.js'
import { LoginStand, policy } from './stand.js'

const login = (more: object) => ({
  type: 'openid-connect',
  config: { issuer_url: 'https://login.example.com', client_id: 'a', client_secret: 'b', ...more }
})
const problems = (...actions: object[]) =>
  new Kit().compile({ on_http_request: [{ actions }] }).problems.map(({ code, path }) => `${code} ${path}`)

t.test('logins of one document that nobody could tell apart are warned of', async (t) => {
  const other = { issuer_url: 'https://other.example.com' }
  t.same(problems(login({}), login({})), [], 'the same twice is one session')
  t.same(problems(login({}), login(other)), ['LOGIN_AMBIGUOUS on_http_request[0].actions[1].config'])
  t.same(problems(login({}), login({ client_id: 'c' })), ['LOGIN_AMBIGUOUS on_http_request[0].actions[1].config'])
  t.same(problems(login({ auth_id: 'x' }), login({ ...other, auth_id: 'x' })), [
    'LOGIN_AMBIGUOUS on_http_request[0].actions[1].config.auth_id'
  ])
  t.same(problems(login({}), login({ ...other, auth_id: 'x' })), [])
})

t.test(
  'an application that only rules could name is warned of, and fails closed on the paths of the login',
  async (t) => {
    const late = login({ client_id: '${vars.app}', client_secret: "${secrets.get('login', 'client')}" })
    t.same(problems(late), ['LOGIN_VALUE_ABSENT on_http_request[0].actions[0].config.client_id'])
    const stand = new LoginStand(t, policy(JSON.stringify({ on_http_request: [{ actions: [late] }] })))
    const browser = new Browser(stand.send)
    for (const path of ['login', 'callback?state=x']) {
      const answer = await browser.once(`http://app.example.com/.sluice/${path}`)
      t.match(answer, { status: 500, headers: { 'sluice-error-code': 'POLICY_EXPRESSION' } }, path)
    }
    t.match(await browser.once('http://app.example.com/.sluice/logout'), { status: 200, body: /logged out/ })
    t.equal(stand.arrived.length, 0)
  }
)
