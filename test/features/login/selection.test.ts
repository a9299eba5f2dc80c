import { randomInt } from 'node:crypto'
import t from 'tap'
import { newAttempt, tagOf } from '../../../src/features/login/attempt-state.js'
import type { FlowRequest } from '../../../src/flow/flow.js'
import { ownPath } from '../../../src/flow/reserved-paths.js'
import type { LoginGate } from '../../../src/policy/login-gate.js'
import { type LoginPlace, loginFor } from '../../../src/policy/login-selection.js'
import { makeFlow } from '../../helpers/flow.js'

const never = () => {
  throw new Error('nobody asks the gate')
}
const place = (realm: string, mark: number, authId: string, path: string): LoginPlace => ({
  path,
  gate: {
    tag: tagOf(realm),
    mark: mark.toString(16).padStart(8, '0'),
    authId,
    run: never,
    answer: never,
    revoke: never,
    leave: never
  }
})
const PLACES = [
  place('one', 1, '', '/'),
  place('one', 2, '', '/a'),
  place('two', 3, 'id', '/b'),
  place('three', 4, 'id', '/c'),
  place('four', 5, '', '/d')
]
const gateOf = (i: number) => PLACES[i]?.gate as LoginGate
/** As the routes of an edge: the first place whose path begins the one that is asked for. */
const nearest = (path: string, among: readonly LoginPlace[]) =>
  among.find((one) => one.path !== '/' && path.startsWith(one.path))

function chosen(url: string) {
  const request = makeFlow({ url: `http://app.example.com${url}` }).request as FlowRequest
  const own = ownPath(request)
  if (own === undefined) throw new Error(url)
  const found = loginFor(own, request, PLACES, nearest)
  return found && { at: PLACES.indexOf(found.place), others: found.call.others.length, home: found.call.home }
}

const stateOf = (tag: string, mark: string, round = 0) =>
  newAttempt({ tag, seal: () => 'sealed' }, mark, { round, redirectUri: 'https://a.test/cb', path: '/x', begun: 0 })
    .state

t.test('who began gets the callback', async (t) => {
  for (let i = 0; i < PLACES.length; i++) {
    const state = stateOf(gateOf(i).tag, gateOf(i).mark, randomInt(2))
    t.match(chosen(`/.sluice/callback?code=x&state=${state}`), { at: i })
    t.match(
      chosen(`/.sluice/callback?state=${state}&auth_id=other&login=none`),
      { at: i },
      'whatever else stands there'
    )
  }
  const changed = stateOf(gateOf(1).tag, 'ffffffff')
  t.match(
    chosen(`/.sluice/callback?state=${changed}`),
    { at: 0 },
    'the realm is right when the configuration has changed'
  )
  for (const state of ['', 'x', stateOf(tagOf('gone'), '00000001')])
    t.match(chosen(`/.sluice/callback?state=${state}`), { at: 0, home: '/' })
})

t.test('logins and logouts by link, by id, by the path where the browser wants to go', async (t) => {
  t.match(chosen('/.sluice/login'), { at: 0, home: '/' })
  t.match(chosen('/ngrok/login?redirect_path=/d/e?f'), { at: 4, home: '/d' })
  t.match(chosen('/.sluice/login?redirect_path=//d'), { at: 0 })
  t.match(chosen('/.sluice/login?auth_id=id'), { at: 2 })
  t.match(chosen('/.sluice/login?auth_id=id&redirect_path=/c'), { at: 3 })
  t.match(chosen('/.sluice/login?auth_id=id&redirect_path=/d'), { at: 2 }, 'a path of another login')
  t.match(chosen('/.sluice/login?auth_id='), { at: 0 })
  t.equal(chosen('/.sluice/login?auth_id=unknown'), undefined)
  t.match(chosen(`/.sluice/login?login=${gateOf(1).tag}.${gateOf(1).mark}`), { at: 1 })
  t.match(chosen(`/.sluice/login?login=${gateOf(1).tag}.gone`), { at: 0 })
  t.equal(chosen('/.sluice/login?login=gone.gone'), undefined)
  t.match(chosen('/.sluice/logout'), { others: 4 })
  t.match(chosen('/ngrok/logout?auth_id=id'), { at: 2, others: 1 })
  t.match(chosen('/.sluice/logout?auth_id='), { others: 2 })
})
