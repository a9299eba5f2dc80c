import t from 'tap'
import type { Principal } from '../../src/control/calls.js'
import { newId } from '../../src/lib/id.js'
import { operation } from '../store/opened.js'
import { type Account, OPERATOR_KEY, open, resource } from './account.js'

/** A bot, and who calls with a key of its own. */
async function bot(
  account: Account,
  name: string
): Promise<{ id: string; key: string; token: string; principal: Principal }> {
  const { id } = await account.create('bot_user', { name })
  const key = await account.create('api_key', { owner_id: id })
  const token = key.answer.token as string
  const principal = await account.control.access.authenticate(token)
  if (principal === undefined) throw new Error('the key opens nothing')
  return { id, key: key.id, token, principal }
}

t.test('a key says who calls, and nothing tells one that is wrong from one that is unknown', async (t) => {
  const account = await open(t)
  const { control } = account
  t.match(account.admin, { role: 'administrator', key: null, id: /^usr_/ })
  const made = await account.create('api_key', {})
  const token = made.answer.token as string
  t.same(await control.access.authenticate(token), { ...account.admin, key: made.id }, 'a key belongs to who made it')
  const robot = await bot(account, 'robot')
  t.same(robot.principal, { id: robot.id, role: 'member', subject: 'robot', key: robot.key })
  const wrong = [
    `${token.slice(0, -1)}x`,
    `${newId('', 0).slice(1)}_${'0'.repeat(64)}`,
    made.id,
    '',
    OPERATOR_KEY.slice(1)
  ]
  for (const key of wrong) t.equal(await control.access.authenticate(key), undefined)
  const authtoken = await account.create('credential', {})
  t.equal(await control.access.authenticate(authtoken.answer.token as string), undefined, 'an authtoken is no API key')
})

t.test('a key ends with its record, with its bot, and rests while the bot is not active', async (t) => {
  const account = await open(t)
  const { control } = account
  const robot = await bot(account, 'robot')
  const credential = await account.create('credential', { owner_id: robot.id })
  t.ok(await control.access.authenticate(robot.token))
  await account.update('bot_user', { id: robot.id }, { active: false })
  await t.rejects(control.access.authenticate(robot.token), { code: 'FORBIDDEN' })
  await account.update('bot_user', { id: robot.id }, { active: true, name: 'android' })
  t.match(await control.access.authenticate(robot.token), { subject: 'android' })
  const second = await account.create('api_key', { owner_id: robot.id })
  await account.remove('api_key', { id: second.id })
  t.equal(await control.access.authenticate(second.answer.token as string), undefined)
  account.events.length = 0
  await account.remove('bot_user', { id: robot.id })
  t.equal(await control.access.authenticate(robot.token), undefined)
  await t.rejects(account.get('credential', { id: credential.id }), { code: 'NOT_FOUND' })
  t.same(
    account.events.map(({ type, id }) => `${type} ${id}`).sort(),
    [
      `api_key_deleted.v0 ${robot.key}`,
      `bot_user_deleted.v0 ${robot.id}`,
      `tunnel_credential_deleted.v0 ${credential.id}`
    ].sort(),
    'whoever keeps sessions hears that their credential is gone'
  )
})

t.test('a key that is read while its owner changes is not remembered', async (t) => {
  let release: () => void = () => undefined
  let reading: () => void = () => undefined
  const inside = new Promise<void>((resolve) => {
    reading = resolve
  })
  let held = ''
  const account = await open(t, {
    wrap: (store) =>
      new Proxy(store, {
        get: (target, name) => {
          const value = Reflect.get(target, name) as unknown
          if (typeof value !== 'function') return value
          if (name !== 'get') return value.bind(target)
          return async (kind: string, id: string) => {
            const found = await target.get(kind, id)
            if (kind !== 'bot_user' || id !== held) return found
            held = ''
            reading()
            await new Promise<void>((resolve) => {
              release = resolve
            })
            return found
          }
        }
      })
  })
  const robot = await account.create('bot_user', { name: 'robot' })
  const key = await account.create('api_key', { owner_id: robot.id })
  held = robot.id
  const early = account.control.access.authenticate(key.answer.token as string)
  await inside
  await account.update('bot_user', { id: robot.id }, { active: false })
  release()
  t.ok(await early, 'it was valid when it was read')
  await t.rejects(account.control.access.authenticate(key.answer.token as string), { code: 'FORBIDDEN' })
})

t.test('members may do everything but write bots, give to others, and change the keys of others', async (t) => {
  const account = await open(t)
  const { control } = account
  const robot = await bot(account, 'robot')
  const other = await bot(account, 'other')
  const refused = { code: 'ADMIN_REQUIRED' }
  const by = robot.principal
  await t.rejects(account.create('bot_user', { name: 'third' }, {}, by), refused)
  await t.rejects(account.update('bot_user', { id: other.id }, { active: false }, {}, by), refused)
  await t.rejects(account.remove('bot_user', { id: other.id }, {}, by), refused)
  t.throws(() => control.records.permit(resource('bot_user'), 'create', account.call(by)), refused)
  control.records.permit(resource('bot_user'), 'list', account.call(by))
  await t.rejects(account.create('credential', { owner_id: other.id }, {}, by), { ...refused, field: 'owner_id' })
  await t.rejects(account.create('api_key', { owner_id: account.admin.id }, {}, by), { ...refused, field: 'owner_id' })
  const own = await account.create('credential', { owner_id: robot.id }, {}, by)
  t.equal(own.answer.owner_id, robot.id, 'naming oneself is no privilege')
  t.equal((await account.create('api_key', {}, {}, by)).answer.owner_id, robot.id)
  await t.rejects(account.remove('api_key', { id: other.key }, {}, by), refused)
  await t.rejects(account.update('api_key', { id: other.key }, { description: 'mine' }, {}, by), refused)
  await account.update('api_key', { id: robot.key }, { description: 'mine' }, {}, by)
  await account.create('ip_policy', {}, {}, by)
  await account.remove('api_key', { id: other.key })
})

t.test('an owner must be there', async (t) => {
  const account = await open(t)
  const nobody = newId('usr', 0)
  await t.rejects(account.create('credential', { owner_id: nobody }), { code: 'REF_NOT_FOUND', field: 'owner_id' })
  await t.rejects(account.create('credential', { owner_id: newId('bot', 0) }), {
    code: 'REF_NOT_FOUND',
    field: 'owner_id'
  })
  await account.create('credential', { owner_id: account.admin.id })
})

/** A policy with these rules, `+` allows and `-` denies. */
async function policy(account: Account, ...rules: string[]): Promise<string> {
  const { id } = await account.create('ip_policy', {})
  for (const rule of rules) {
    const action = rule.startsWith('+') ? 'allow' : 'deny'
    await account.create('ip_policy_rule', { ip_policy_id: id, cidr: rule.slice(1), action })
  }
  return id
}

t.test('an enforced restriction of type api refuses addresses; deny beats allow; no allow refuses', async (t) => {
  const account = await open(t)
  const { control } = account
  const here = await policy(account, '+127.0.0.0/8', '-127.0.0.9/32')
  const more = await policy(account, '+2001:db8::/32', '-127.0.0.8/32')
  await account.create('ip_restriction', { type: 'agent', enforced: true, ip_policy_ids: [await policy(account)] })
  t.ok(control.access.admits('192.0.2.1'), 'a restriction of other traffic is not ours')
  const body = { type: 'api', enforced: true, ip_policy_ids: [here, more] }
  const restriction = await account.create('ip_restriction', body)
  const allowed = ['127.0.0.1', '::ffff:127.0.0.2', '2001:db8::1']
  const refused = ['127.0.0.9', '127.0.0.8', '192.0.2.1', '2001:db9::1', 'nonsense', undefined]
  for (const address of allowed) t.ok(control.access.admits(address), address)
  for (const address of refused) t.notOk(control.access.admits(address), String(address))
  const rule = await account.create('ip_policy_rule', { ip_policy_id: more, cidr: '192.0.2.0/24', action: 'allow' })
  t.ok(control.access.admits('192.0.2.1'), 'a rule acts at once')
  await account.remove('ip_policy_rule', { id: rule.id })
  t.notOk(control.access.admits('192.0.2.1'))
  await account.update('ip_restriction', { id: restriction.id }, { enforced: false })
  t.ok(control.access.admits('192.0.2.1'))
  t.match(account.log.texts.at(-1), /not enforced would refuse.*192\.0\.2\.1/)
  await account.remove('ip_restriction', { id: restriction.id })
  t.ok(control.access.admits('192.0.2.1'))
})

t.test('whoever writes does not shut himself out, unless he insists', async (t) => {
  const account = await open(t)
  const { control } = account
  const lockout = { code: 'LOCKOUT', details: { address: '127.0.0.1' } }
  const empty = await policy(account)
  const body = { type: 'api', enforced: true, ip_policy_ids: [empty] }
  const before = control.configuration.revision
  await t.rejects(account.create('ip_restriction', body), lockout)
  t.equal(control.configuration.revision, before)
  t.ok(control.access.admits('127.0.0.1'), 'a refused write changes nothing')
  const lenient = await account.create('ip_restriction', { ...body, enforced: false })
  await t.rejects(account.update('ip_restriction', { id: lenient.id }, { enforced: true }), lockout)
  const allow = await account.create('ip_policy_rule', { ip_policy_id: empty, cidr: '127.0.0.0/8', action: 'allow' })
  await account.update('ip_restriction', { id: lenient.id }, { enforced: true })
  await t.rejects(account.remove('ip_policy_rule', { id: allow.id }), lockout)
  await t.rejects(account.update('ip_policy_rule', { id: allow.id }, { cidr: '10.0.0.0/8' }), lockout)
  await t.rejects(
    account.create('ip_policy_rule', { ip_policy_id: empty, cidr: '127.0.0.1/32', action: 'deny' }),
    lockout
  )
  await t.rejects(account.remove('ip_policy', { id: empty }), lockout)
  t.ok(control.access.admits('127.0.0.1'))
  await account.create('ip_policy_rule', { ip_policy_id: empty, cidr: '10.0.0.0/8', action: 'deny' })
  await account.remove('ip_policy', { id: empty }, { force: true })
  t.notOk(control.access.admits('127.0.0.1'), 'a policy that is gone has no rules')
})

t.test('the first start makes the one administrator, the next finds it', async (t) => {
  const account = await open(t)
  t.equal(account.control.configuration.revision, 1)
  const [entry] = await account.store.history({ limit: 10 })
  t.equal(entry?.revision, 1)
  const user = await account.store.get('user', account.admin.id)
  t.same(user?.body, { role: 'administrator' })
  await account.store.transact(operation(), async (tx) => {
    await tx.insert({ kind: 'user', id: newId('usr', 1), body: { role: 'member' } })
  })
  t.equal((await account.control.access.authenticate(OPERATOR_KEY))?.id, account.admin.id)
})
