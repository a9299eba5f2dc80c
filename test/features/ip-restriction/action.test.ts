import t from 'tap'
import { NO_UNITS } from '../../../src/flow/flow.js'
import { type Cidr, CidrSet, parseCidr } from '../../../src/lib/ip.js'
import { makeFlow } from '../../helpers/flow.js'
import { Kit, outcomeOf } from '../kit.js'

const kit = new Kit()
const from = (clientAddress: string) => makeFlow({ clientAddress })

t.test('an address passes when it is allowed and not denied', async (t) => {
  const run = kit.action('restrict-ips', {
    allow: ['192.0.2.0/24', '2001:db8::/32', '198.51.100.7', '203.0.113.77/28'],
    deny: ['192.0.2.128/25', '2001:db8:bad::/48']
  })
  const cases: readonly (readonly [string, string, string])[] = [
    ['192.0.2.1', 'goes on', '192.0.2.0/24'],
    ['192.0.2.200', '403 IP_RESTRICTED', '192.0.2.128/25'],
    ['198.51.100.7', 'goes on', '198.51.100.7/32'],
    ['198.51.100.8', '403 IP_RESTRICTED', ''],
    ['203.0.113.65', 'goes on', '203.0.113.64/28'],
    ['2001:db8::1', 'goes on', '2001:db8::/32'],
    ['2001:db8:bad::1', '403 IP_RESTRICTED', '2001:db8:bad::/48'],
    ['::1', '403 IP_RESTRICTED', '']
  ]
  for (const [address, outcome, cidr] of cases) {
    const flow = from(address)
    t.equal(outcomeOf(run(flow)), outcome, address)
    t.same(kit.read('actions.service.restrict_ips', flow), {
      action: outcome === 'goes on' ? 'allow' : 'deny',
      matched_cidr: cidr,
      error: { code: '', message: '' }
    })
  }
})

t.test('a header never counts', async (t) => {
  const run = kit.action('restrict-ips', { allow: ['10.0.0.0/8'] })
  const flow = makeFlow({ clientAddress: '192.0.2.1', headers: ['X-Forwarded-For', '10.0.0.1'] })
  t.equal(outcomeOf(run(flow)), '403 IP_RESTRICTED')
})

t.test('all addresses can be allowed, so that deny alone decides', async (t) => {
  const run = kit.action('restrict-ips', { allow: ['0.0.0.0/0', '::/0'], deny: ['192.0.2.1'] })
  t.equal(outcomeOf(run(from('192.0.2.2'))), 'goes on')
  t.equal(outcomeOf(run(from('2001:db8::1'))), 'goes on')
  t.equal(outcomeOf(run(from('192.0.2.1'))), '403 IP_RESTRICTED')
  const denyOnly = kit.problems('restrict-ips', { deny: ['192.0.2.1'] })
  t.match(denyOnly, [/^warning NOTHING_ALLOWED/])
  t.equal(outcomeOf(kit.action('restrict-ips', { deny: ['192.0.2.1'] })(from('192.0.2.2'))), '403 IP_RESTRICTED')
  t.equal(outcomeOf(kit.action('restrict-ips', {})(from('192.0.2.2'))), '403 IP_RESTRICTED')
})

t.test('an IPv4 address in its IPv6 form is the same address', async (t) => {
  const run = kit.action('restrict-ips', { allow: ['::ffff:192.0.2.0/120'] })
  t.equal(outcomeOf(run(from('192.0.2.9'))), 'goes on')
  t.equal(outcomeOf(kit.action('restrict-ips', { allow: ['192.0.2.0/24'] })(from('::ffff:192.0.2.9'))), 'goes on')
})

t.test('a connection is closed, an answer is replaced, and without enforcement nothing is', async (t) => {
  const config = { allow: ['10.0.0.0/8'] }
  t.equal(outcomeOf(kit.action('restrict-ips', config, 'on_tcp_connect')(makeFlow({ request: false }))), 'close')
  const answer = makeFlow({ response: { status: 200 } })
  t.equal(outcomeOf(kit.action('restrict-ips', config, 'on_http_response')(answer)), '403 IP_RESTRICTED')
  const flow = from('192.0.2.1')
  t.equal(kit.action('restrict-ips', { ...config, enforce: false })(flow), undefined)
  t.equal(kit.read('actions.ngrok.restrict_ips.action', flow), 'deny')
})

t.test('entries may come from expressions, as one text or as a list', async (t) => {
  const run = kit.actions([
    ['set-vars', { vars: [{ office: ['192.0.2.0/24', '198.51.100.7'] }, { bad: '10.0.0' }] }],
    [
      'restrict-ips',
      {
        allow: ['${vars.office}', "10.${'1'}.0.0/16"],
        deny: ["${conn.client_port == 1 ? '0.0.0.0/0' : '203.0.113.1'}"]
      }
    ]
  ])
  for (const [address, outcome] of [
    ['192.0.2.7', 'goes on'],
    ['198.51.100.7', 'goes on'],
    ['10.1.2.3', 'goes on'],
    ['10.2.2.3', '403 IP_RESTRICTED']
  ] as const) {
    t.equal(outcomeOf(run(from(address))), outcome, address)
  }
  t.equal(outcomeOf(run(makeFlow({ clientAddress: '10.1.2.3', clientPort: 1 }))), '403 IP_RESTRICTED')
})

t.test(
  'an entry that is no network fails closed when it is known late, and is refused when it is known early',
  async (t) => {
    const late = kit.action('restrict-ips', { allow: ['0.0.0.0/0'], deny: ["${getReqHeader('x-net').join('')}"] })
    t.equal(outcomeOf(late(makeFlow({ headers: ['x-net', 'nonsense'] }))), '500 POLICY_EXPRESSION')
    t.equal(outcomeOf(late(makeFlow({ headers: ['x-net', '198.51.100.0/24'] }))), 'goes on')
    for (const entry of [
      '010.0.0.1',
      '10.0.0',
      '10.0.0.0/33',
      'fe80::1%eth0',
      '::/129',
      'example.com',
      '',
      '1.2.3.4/024'
    ]) {
      for (const list of ['allow', 'deny']) {
        const problems = kit.problems('restrict-ips', { allow: ['::/0'], [list]: ['192.0.2.1', entry] })
        t.match(problems, [new RegExp(`^error CONFIG_INVALID .*config\\.${list}\\[1\\]`)], `${list} ${entry}`)
      }
    }
  }
)

t.test('placeholders are warned of, and such a policy never runs', async (t) => {
  const compiled = (config: object) =>
    kit.compile({ on_http_request: [{ actions: [{ type: 'restrict-ips', config }] }] })
  for (const entry of ['$YOUR_IP/32', '<YOUR_IP>']) {
    t.match(kit.problems('restrict-ips', { allow: [entry] }), [/^warning PLACEHOLDER .*config\.allow\[0\]/])
    t.equal(compiled({ allow: [entry, '0.0.0.0/0'] }).policy, undefined)
    t.equal(compiled({ allow: ['0.0.0.0/0'], deny: [entry] }).policy, undefined)
  }
  t.match(kit.problems('restrict-ips', { ip_policies: ['<IP policy id>'] }), [
    /^warning PLACEHOLDER .*ip_policies\[0\]/
  ])
  t.equal(compiled({ ip_policies: ['<IP policy id>'] }).policy, undefined)
})

/** A configuration with these IP policies. */
function pinned(
  flow: ReturnType<typeof from>,
  policies: Readonly<Record<string, { allow?: string[]; deny?: string[] }>>
) {
  const set = (texts: string[] = []) => new CidrSet(texts.map((text) => parseCidr(text) as Cidr))
  flow.units = {
    ...NO_UNITS,
    ipPolicy: (id) => {
      const policy = policies[id]
      return policy === undefined ? undefined : { allow: set(policy.allow), deny: set(policy.deny) }
    }
  }
  return flow
}

t.test('IP policies are asked together with the lists', async (t) => {
  const office = 'ipp_2p2q5Yt85IKQQ7zbpR4XmUpyVIN'
  const partners = 'ipp_1yjqdrIBwgciY2I9zH2EelgBbJF'
  const run = kit.action('restrict-ips', {
    allow: ['192.0.2.0/24'],
    deny: ['203.0.113.99'],
    ip_policies: [office, partners]
  })
  const policies = {
    [office]: { allow: ['198.51.100.0/24', '203.0.113.0/24'], deny: ['192.0.2.66/32'] },
    [partners]: { allow: ['2001:db8::/32'], deny: ['198.51.100.128/25'] }
  }
  const cases: readonly (readonly [string, string, string])[] = [
    ['192.0.2.1', 'goes on', '192.0.2.0/24'],
    ['192.0.2.66', '403 IP_RESTRICTED', '192.0.2.66/32'],
    ['198.51.100.1', 'goes on', '198.51.100.0/24'],
    ['198.51.100.200', '403 IP_RESTRICTED', '198.51.100.128/25'],
    ['::ffff:198.51.100.200', '403 IP_RESTRICTED', '198.51.100.128/25'],
    ['203.0.113.98', 'goes on', '203.0.113.0/24'],
    ['203.0.113.99', '403 IP_RESTRICTED', '203.0.113.99/32'],
    ['2001:db8::1', 'goes on', '2001:db8::/32'],
    ['::1', '403 IP_RESTRICTED', '']
  ]
  for (const [address, outcome, network] of cases) {
    const flow = pinned(from(address), policies)
    t.equal(outcomeOf(run(flow)), outcome, address)
    t.equal(kit.read('actions.service.restrict_ips.matched_cidr', flow), network, address)
  }
})

t.test('an IP policy that does not exist, or has no rules, allows nobody', async (t) => {
  const id = 'ipp_2p2q5Yt85IKQQ7zbpR4XmUpyVIN'
  for (const phase of ['on_tcp_connect', 'on_http_request', 'on_http_response'] as const) {
    const run = kit.action('restrict-ips', { ip_policies: [id] }, phase)
    const refusal = phase === 'on_tcp_connect' ? 'close' : '403 IP_RESTRICTED'
    const flow = () => makeFlow({ clientAddress: '192.0.2.1', response: { status: 200 } })
    t.equal(outcomeOf(run(pinned(flow(), {}))), refusal)
    t.equal(outcomeOf(run(pinned(flow(), { [id]: {} }))), refusal)
    t.equal(outcomeOf(run(pinned(flow(), { [id]: { allow: ['::/0'] } }))), refusal, 'IPv6 says nothing of IPv4')
    t.equal(outcomeOf(run(pinned(flow(), { [id]: { allow: ['0.0.0.0/0'] } }))), 'goes on')
  }
})

t.test('what is no id of an IP policy is refused where it stands', async (t) => {
  for (const id of ['', 'ipp_', 'ipr_2p2q5Yt85IKQQ7zbpR4XmUpyVIN', 'ipp_a-b', ' ipp_1', '192.0.2.0/24']) {
    const problems = kit.problems('restrict-ips', { ip_policies: ['ipp_1', id] })
    t.match(problems, [/^error CONFIG_INVALID .*config\.ip_policies\[1\]/], JSON.stringify(id))
  }
  t.same(kit.problems('restrict-ips', { ip_policies: ['ipp_2p2q5Yt85IKQQ7zbpR4XmUpyVIN'] }), [])
  t.same(kit.problems('restrict-ips', { allow: ['::/0'], ip_policies: [] }), [])
  t.match(kit.problems('restrict-ips', { ip_policies: [] }), [/^warning NOTHING_ALLOWED/])
})
