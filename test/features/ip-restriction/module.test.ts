import t from 'tap'
import { outcome, startRoute } from '../route.js'

t.test('a route serves the addresses that its policies allow, from the next request on', async (t) => {
  const { get, put, remove, made, api } = await startRoute(t, (_, response) => response.end('ok'))
  const from = async (address: string) => outcome(await get({ from: address }))
  const restricted = '403 IP_RESTRICTED'
  const office = await made('/ip_policies', { description: 'office' })
  const partners = await made('/ip_policies', {})
  const rule = (policy: { id: string }, cidr: string, action = 'allow') =>
    made('/ip_policy_rules', { ip_policy_id: policy.id, cidr, action })

  t.equal(await from('192.0.2.1'), '200')
  await put('ip_restriction', { ip_policy_ids: [office.id] })
  t.equal(await from('192.0.2.1'), restricted, 'a policy without rules allows nobody')

  await rule(office, '192.0.2.0/24')
  t.equal(await from('192.0.2.1'), '200')
  t.equal(await from('192.0.3.1'), restricted)
  t.equal(await from('2001:db8::1'), restricted)

  await put('ip_restriction', { ip_policy_ids: [office.id, partners.id] })
  const v6 = await rule(partners, '2001:db8::/32')
  t.equal(await from('2001:db8::1'), '200')
  t.equal(await from('[2001:db8::2]:4711'), '200')
  t.equal(await from('192.0.2.1'), '200', 'the address may be in either')
  t.equal(await from('::ffff:192.0.2.1'), '200', 'an IPv4 address in its IPv6 form is the same address')
  await rule(partners, '192.0.2.128/25', 'deny')
  t.equal(await from('192.0.2.200'), restricted, 'deny beats allow')
  t.equal(await from('::ffff:192.0.2.200'), restricted)

  await api('PATCH', `/ip_policy_rules/${v6.id}`, { cidr: '2001:db8:1::/48' })
  t.equal(await from('2001:db8::1'), restricted)
  t.equal(await from('2001:db8:1::1'), '200')
  await api('DELETE', `/ip_policy_rules/${v6.id}`)
  t.equal(await from('2001:db8:1::1'), restricted)

  await api('DELETE', `/ip_policies/${partners.id}`)
  t.equal(await from('192.0.2.200'), '200', 'what the policy denied is gone with it')
  await api('DELETE', `/ip_policies/${office.id}`)
  t.equal(await from('192.0.2.1'), restricted, 'policies that are gone allow nobody')

  await remove('ip_restriction')
  t.equal(await from('192.0.2.1'), '200')
})

t.test('rules of another policy do not count', async (t) => {
  const { get, put, made } = await startRoute(t, (_, response) => response.end('ok'))
  const policy = await made('/ip_policies', {})
  const other = await made('/ip_policies', {})
  await made('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' })
  await made('/ip_policy_rules', { ip_policy_id: other.id, cidr: '192.0.2.0/24', action: 'deny' })
  await put('ip_restriction', { ip_policy_ids: [policy.id] })
  t.equal(outcome(await get({ from: '192.0.2.1' })), '200')
  await put('ip_restriction', { ip_policy_ids: [policy.id, other.id] })
  t.equal(outcome(await get({ from: '192.0.2.1' })), '403 IP_RESTRICTED')
})

t.test('a route can be made with the module, and the module can be off', async (t) => {
  const { get, put, made, edge, api } = await startRoute(t, (_, response) => response.end('ok'))
  const policy = await made('/ip_policies', {})
  await put('ip_restriction', { enabled: false, ip_policy_ids: [policy.id] })
  t.equal(outcome(await get({ from: '192.0.2.1' })), '200')
  const inline = await made(`/edges/https/${edge}/routes`, {
    match_type: 'path_prefix',
    match: '/inline',
    ip_restriction: { ip_policy_ids: [policy.id] }
  })
  t.equal(outcome(await get({ path: '/inline/a', from: '192.0.2.1' })), '403 IP_RESTRICTED')
  const off = await api('PATCH', `/edges/https/${edge}/routes/${inline.id}`, {
    ip_restriction: { enabled: false, ip_policy_ids: [policy.id] }
  })
  t.equal(off.status, 200)
  t.equal(outcome(await get({ path: '/inline/a', from: '192.0.2.1' })), '503 NO_UPSTREAM')
})

t.test('the action restrict-ips sees the same policies', async (t) => {
  const { get, put, made } = await startRoute(t, (_, response) => response.end('ok'))
  const policy = await made('/ip_policies', {})
  const document = (id: string) => ({
    value: JSON.stringify({
      on_http_request: [{ actions: [{ type: 'restrict-ips', config: { allow: ['10.0.0.0/8'], ip_policies: [id] } }] }]
    })
  })
  await put('traffic_policy', document(policy.id))
  t.equal(outcome(await get({ from: '192.0.2.1' })), '403 IP_RESTRICTED')
  await made('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' })
  t.equal(outcome(await get({ from: '192.0.2.1' })), '200', 'a rule applies without a new document')
  await made('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '10.0.0.1/32', action: 'deny' })
  t.equal(outcome(await get({ from: '10.0.0.1' })), '403 IP_RESTRICTED')
  t.equal(outcome(await get({ from: '10.0.0.2' })), '200')
  await put('traffic_policy', document('ipp_0000000000000000000000000'))
  t.equal(outcome(await get({ from: '192.0.2.1' })), '403 IP_RESTRICTED', 'an id that stands for nothing')
  await t.rejects(put('traffic_policy', document('192.0.2.0/24')), /CONFIG_INVALID/)
})

t.test('a header of the client never makes it somebody else', async (t) => {
  for (const [trusted, from, expected] of [
    ['', '192.0.2.1', '403 IP_RESTRICTED'],
    ['10.0.0.0/8', '192.0.2.1', '403 IP_RESTRICTED'],
    ['127.0.0.1/32', '192.0.2.1', '200'],
    ['127.0.0.1/32', '192.0.2.1, 198.51.100.1', '403 IP_RESTRICTED'],
    ['127.0.0.1/32', '198.51.100.1, 192.0.2.1', '200'],
    ['127.0.0.1/32,198.51.100.0/24', '192.0.2.1, 198.51.100.1', '200']
  ] as const) {
    const serve = await startRoute(
      t,
      (_, response) => response.end('ok'),
      {},
      { options: { TRUSTED_PROXIES: trusted } }
    )
    const policy = await serve.made('/ip_policies', {})
    await serve.made('/ip_policy_rules', { ip_policy_id: policy.id, cidr: '192.0.2.0/24', action: 'allow' })
    await serve.put('ip_restriction', { ip_policy_ids: [policy.id] })
    t.equal(outcome(await serve.get({ from })), expected, `${from} behind ${trusted}`)
  }
})
