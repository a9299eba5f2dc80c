import type { Peer, RunningPeer } from './peers.js'
import { checkAnswer, sampleOf, scenarioLoad } from './scenario-load.js'
import type { Scenario } from './scenarios.js'
import { median, table } from './table.js'

interface Sample {
  readonly rate: number
  /** Microseconds of CPU for each request. */
  readonly cost: number
  readonly errors: number
}

/**
 * Each peer with one thread and with several, in the same rounds. With one it has a CPU to itself; with several it shares all CPUs with the
 * load and the upstream, so that its rate is what is left of them: its CPU for each request says what it could do with CPUs of its own.
 */
export async function severalThreads(
  scenarios: readonly Scenario[],
  peers: readonly Peer[],
  upstream: number,
  { threads, rounds, seconds }: { readonly threads: number; readonly rounds: number; readonly seconds: number }
): Promise<void> {
  for (const scenario of scenarios) {
    console.log(
      `\n${scenario.title}, one thread and ${threads}: ${rounds} rounds of ${seconds} s, ${scenario.connections} connections`
    )
    const running = await Promise.all(
      peers
        .filter((peer) => peer.can(scenario))
        .flatMap((peer) => [1, threads].map(async (count) => await started(peer, scenario, upstream, count)))
    )
    // Compilers are at work for the first ten thousands of requests.
    for (const one of running) await asked(one, scenario, WARM_UP)
    for (let round = 0; round < rounds; round++)
      for (const one of round % 2 === 0 ? running : [...running].reverse())
        one.samples.push(await asked(one, scenario, seconds))
    await Promise.all(running.map((one) => one.running.stop()))
    report(running, threads)
  }
}

/** Seconds. */
const WARM_UP = 6

interface Started {
  readonly name: string
  readonly threads: number
  readonly running: RunningPeer
  readonly samples: Sample[]
}

async function started(peer: Peer, scenario: Scenario, upstream: number, threads: number): Promise<Started> {
  const running = await peer.start(scenario, upstream, threads)
  await checkAnswer(peer, running, scenario, upstream)
  return { name: peer.name, threads, running, samples: [] }
}

async function asked({ running, threads }: Started, scenario: Scenario, seconds: number): Promise<Sample> {
  const load = (duration: number) => scenarioLoad(running, scenario, duration, threads === 1)
  const seen = await sampleOf(running.child.pid as number, seconds, load)
  return { rate: seen.requests / seen.seconds, cost: (seen.cpu * 1e6) / seen.requests, errors: seen.errors }
}

function report(running: readonly Started[], threads: number): void {
  const of = (name: string, count: number) =>
    running.find((one) => one.name === name && one.threads === count)?.samples ?? []
  const rows = [...new Set(running.map(({ name }) => name))].map((name) => {
    const [one, several] = [of(name, 1), of(name, threads)]
    const cost = [one, several].map((all) => median(all.map((sample) => sample.cost))) as [number, number]
    const rate = [one, several].map((all) => median(all.map((sample) => sample.rate))) as [number, number]
    return [
      name,
      rate[0].toFixed(0),
      rate[1].toFixed(0),
      (rate[1] / rate[0]).toFixed(2),
      cost[0].toFixed(1),
      cost[1].toFixed(1),
      (cost[1] / cost[0]).toFixed(2),
      ((threads * cost[0]) / cost[1]).toFixed(2),
      String([...one, ...several].reduce((sum, { errors }) => sum + errors, 0))
    ]
  })
  const head = [
    '',
    'req/s, 1',
    `req/s, ${threads}`,
    'ratio',
    'CPU µs, 1',
    `CPU µs, ${threads}`,
    'ratio',
    'by CPU',
    'errors'
  ]
  table(head, rows)
}
