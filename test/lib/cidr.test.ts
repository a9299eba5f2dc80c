import t from 'tap'
import { type Cidr, CidrSet, formatAddress, maskAddress, parseAddress, parseCidr } from '../../src/lib/ip.js'

function shown(text: string): string | undefined {
  const address = parseAddress(text)
  return address === undefined ? undefined : formatAddress(address)
}

t.test('addresses are parsed strictly and written in one form', async (t) => {
  const accepted: Record<string, string> = {
    '1.2.3.4': '1.2.3.4',
    '255.255.255.255': '255.255.255.255',
    '::': '::',
    '::1': '::1',
    '1::': '1::',
    '2001:DB8:0:0:1:0:0:1': '2001:db8::1:0:0:1',
    '2001:db8:0:1:1:1:1:1': '2001:db8:0:1:1:1:1:1',
    '1:2:3:4:5:6:7::': '1:2:3:4:5:6:7:0',
    '::ffff:192.0.2.1': '192.0.2.1',
    '::FFFF:c000:201': '192.0.2.1',
    '64:ff9b::192.0.2.33': '64:ff9b::c000:221'
  }
  for (const [text, expected] of Object.entries(accepted)) t.equal(shown(text), expected, text)
  const refused = [
    '',
    '1.2.3',
    '01.2.3.4',
    '0x1.2.3.4',
    '1.2.3.4.5',
    '256.1.1.1',
    '1.2.3.4 ',
    ' 1.2.3.4',
    '1..2.3',
    '1.2.3.',
    ':::',
    '1::2::3'
  ]
  refused.push(
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7:8::',
    '12345::',
    'fe80::1%eth0',
    '::1.2.3',
    '1.2.3.4::',
    '::g',
    '1:',
    ':1'
  )
  for (const text of refused) t.equal(shown(text), undefined, JSON.stringify(text))
})

t.test('networks mask their host bits', async (t) => {
  const accepted: Record<string, string> = {
    '66.249.66.1/24': '66.249.66.0/24',
    '10.1.2.3': '10.1.2.3/32',
    '10.1.2.3/0': '0.0.0.0/0',
    '2001:db8:ffff::/33': '2001:db8:8000::/33',
    '::1': '::1/128',
    '::ffff:10.1.2.3/104': '10.0.0.0/8'
  }
  for (const [text, expected] of Object.entries(accepted)) t.equal(parseCidr(text)?.text, expected, text)
  for (const text of [
    '10.0.0.0/33',
    '10.0.0.0/08',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0/8',
    '::/129',
    '::ffff:1.2.3.4/95',
    '1.2.3.4/8/8',
    'x/8'
  ])
    t.equal(parseCidr(text), undefined, text)
})

t.test('a set finds what a walk over its networks finds, and prefers the longest prefix', async (t) => {
  let seed = 3
  const next = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed
  }
  // Few distinct words, so that networks and addresses meet.
  const word = () => [0, 0x0a000000, 0x0a010000, 0x20010db8, 0x80000000, 0xffffffff, next()][next() % 7] as number
  const address = () => (next() % 2 === 0 ? ([word()] as const) : ([word(), word(), word(), word() | 1] as const))
  const networks: Cidr[] = []
  for (let i = 0; i < 400; i++) {
    const one = address()
    const cidr = parseCidr(`${formatAddress(one)}/${next() % (one.length * 32 + 1)}`)
    if (cidr !== undefined) networks.push(cidr)
  }
  const set = new CidrSet(networks)
  let found = 0
  for (let i = 0; i < 3000; i++) {
    const one = address()
    const holders = networks.filter(
      ({ network, bits }) =>
        network.length === one.length && maskAddress(one, bits).every((part, k) => part === network[k])
    )
    const longest = holders.sort((a, b) => b.bits - a.bits)[0]?.text
    if (longest !== undefined) found++
    if (set.match(formatAddress(one)) !== longest)
      t.fail(`${formatAddress(one)}: ${set.match(formatAddress(one))} is not ${longest}`)
  }
  t.ok(found > 500, `${found} addresses lie in a network`)
  t.equal(set.match('nonsense'), undefined)
})

t.test('an IPv4-mapped address is looked up as IPv4', async (t) => {
  const set = new CidrSet([parseCidr('192.0.2.0/24') as Cidr])
  t.equal(set.match('::ffff:192.0.2.9'), '192.0.2.0/24')
  t.equal(set.match('::192.0.2.9'), undefined)
})

t.test('ten thousand rules cost no more than a few microseconds', async (t) => {
  const rules: Cidr[] = []
  for (let i = 0; i < 10_000; i++) {
    const text =
      i % 2 === 0
        ? `${11 + (i % 200)}.${i % 256}.${(i >> 8) % 256}.0/${20 + (i % 13)}`
        : `2001:db8:${i.toString(16)}::/${40 + (i % 24)}`
    rules.push(parseCidr(text) as Cidr)
  }
  const set = new CidrSet(rules)
  for (const address of ['203.0.113.9', '2001:db8:ffff:1::1']) {
    for (let i = 0; i < 20_000; i++) set.match(address)
    const before = process.cpuUsage()
    for (let i = 0; i < 20_000; i++) set.match(address)
    const { user, system } = process.cpuUsage(before)
    const each = (user + system) / 20_000
    t.comment(`${address}: ${each.toFixed(2)} microseconds`)
    t.ok(each < 10, `${address} is found absent soon`)
  }
})
