import t from 'tap'
import { DescriptorShares } from '../../src/lib/descriptor-shares.js'

t.test('clients get half of what the process does not keep, upstreams the rest, and nobody more', async (t) => {
  for (const [allowed, forTraffic] of [
    [256, 192],
    [1_024, 824],
    [20_200, 20_000]
  ] as const) {
    const shares = new DescriptorShares()
    shares.allow(allowed)
    let clients = 0
    while (shares.admitsClient) {
      shares.countClient(1)
      clients++
    }
    t.equal(clients, forTraffic / 2)
    let upstreams = 0
    while (shares.admitsUpstream) {
      shares.countUpstream(1)
      upstreams++
    }
    t.ok(upstreams >= clients, 'each client can have an upstream')
    t.equal(clients + upstreams, forTraffic)
    shares.countClient(-1)
    t.ok(shares.admitsClient)
    t.ok(shares.admitsUpstream)
  }
})

t.test('threads count together, and one that ends gives back what it had', async (t) => {
  const main = new DescriptorShares()
  main.allow(256)
  const other = new DescriptorShares(main.memory, 3)
  for (let i = 0; i < 192; i++) other.countUpstream(1)
  t.notOk(main.admitsUpstream)
  t.ok(main.admitsClient, 'what upstreams have is not taken from the half of clients')
  main.clear(3)
  t.ok(main.admitsUpstream)
})

t.test('where the system says nothing there is no bound', async (t) => {
  const shares = new DescriptorShares()
  t.ok(shares.admitsClient)
  shares.allow(Number.POSITIVE_INFINITY)
  for (let i = 0; i < 5_000; i++) shares.countClient(1)
  t.ok(shares.admitsClient)
  t.ok(shares.admitsUpstream)
})
