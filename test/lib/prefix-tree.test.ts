import t from 'tap'
import { type Cidr, CidrSet, formatAddress, maskAddress, parseAddress, parseCidr } from '../../src/lib/ip.js'
import { numbers } from '../helpers/numbers.js'

/** Few bits differ, so that networks hold each other, part late and come back. */
function cidr(next: (below: number) => number): Cidr {
  const words = [
    '10.0.0.0',
    '10.0.0.1',
    '10.128.0.0',
    '192.0.2.129',
    '::',
    '2001:db8::',
    '2001:db8:0:1::8000:1',
    '8000::'
  ]
  const address = words[next(words.length)] as string
  return parseCidr(`${address}/${next(address.includes(':') ? 129 : 33)}`) as Cidr
}

function walk(networks: readonly Cidr[], text: string): string | undefined {
  const address = parseAddress(text)
  if (address === undefined) return undefined
  return networks
    .filter(
      ({ network, bits }) =>
        network.length === address.length && formatAddress(maskAddress(address, bits)) === formatAddress(network)
    )
    .sort((a, b) => b.bits - a.bits)[0]?.text
}

t.test(
  'a set that changes finds what a walk over its networks finds, and its forerunners stay as they were',
  async (t) => {
    const next = numbers(5)
    const asked = [
      '10.0.0.0',
      '10.0.0.1',
      '10.0.0.2',
      '10.200.0.1',
      '192.0.2.1',
      '192.0.2.200',
      '::',
      '::1',
      '2001:db8::1'
    ]
    asked.push('2001:db8:0:1::8000:1', '2001:db8:0:1::8000:2', 'ffff::', '8000::1', '0.0.0.0')
    let networks: Cidr[] = []
    let set = new CidrSet([])
    const history: { set: CidrSet; networks: Cidr[] }[] = []
    let wrong = 0
    const check = (one: CidrSet, held: readonly Cidr[]) => {
      if (one.size !== held.length) wrong++
      for (const text of asked) if (one.match(text) !== walk(held, text)) wrong++
    }
    for (let step = 0; step < 3_000; step++) {
      const grows = networks.length < 5 || (networks.length < 120 && next(2) === 0)
      if (grows) {
        const one = cidr(next)
        networks = [...networks, one]
        set = set.with([one])
      } else {
        const index = next(networks.length)
        const one = networks[index] as Cidr
        networks = networks.filter((_, i) => i !== index)
        set = set.with([], [one])
      }
      if (step % 10 === 0) check(set, networks)
      if (step % 300 === 0) history.push({ set, networks })
    }
    for (const past of history) check(past.set, past.networks)
    t.equal(wrong, 0)
    t.same(set.with([], networks).size, 0)
    t.equal(set.with([], networks).match('10.0.0.1'), undefined)
  }
)

t.test('a network added twice is dropped twice, and one that is not there not at all', async (t) => {
  const one = parseCidr('10.0.0.0/8') as Cidr
  const twice = new CidrSet([one, one])
  t.equal(twice.with([], [one]).match('10.1.1.1'), '10.0.0.0/8')
  t.equal(twice.with([], [one, one]).match('10.1.1.1'), undefined)
  for (const absent of ['10.0.0.0/9', '10.0.0.0/7', '11.0.0.0/8', '::/0', '0.0.0.0/0']) {
    const same = twice.with([], [parseCidr(absent) as Cidr])
    t.equal(same.size, 2, absent)
    t.equal(same.match('10.1.1.1'), '10.0.0.0/8')
  }
})

t.test('the order of adding does not matter', async (t) => {
  const next = numbers(9)
  const networks = Array.from({ length: 60 }, () => cidr(next))
  const [forth, back] = [new CidrSet(networks), new CidrSet([...networks].reverse())]
  for (let i = 0; i < 500; i++) {
    const text = formatAddress(cidr(next).network)
    if (forth.match(text) !== back.match(text)) t.fail(text)
  }
})
