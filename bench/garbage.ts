import { build, type Peer } from './peers.js'
import { sampleOf, scenarioLoad } from './scenario-load.js'
import type { Scenario } from './scenarios.js'
import { table } from './table.js'

/** A garbage collection in the output of `--trace-gc`: its kind, MB before and after, milliseconds of the main thread. */
const COLLECTION =
  /: (Scavenge|Mark-Compact)[^\n]*? ([\d.]+) \([\d.]+\) -> ([\d.]+) \([\d.]+\) MB,[^\n]*? ([\d.]+) \/ [\d.]+ ms/g

/** Load before the count (s), after which compilers have less to do. */
const WARM_SECONDS = 3
const SECONDS = 3

/**
 * Counts garbage collections of builds of Sluice under the load of `scenario`, by `--trace-gc` of Node. Only what lies in the heap of V8 counts;
 * memory of buffers does not. `megabytes`: size of one body.
 */
export async function garbage(
  scenario: Scenario,
  builds: readonly { readonly name: string; readonly main: string; readonly flags: readonly string[] }[],
  upstream: number,
  megabytes: number
): Promise<void> {
  const rows: string[][] = []
  for (const { name, main, flags } of builds) {
    let said = ''
    const peer: Peer = build(name, main, {
      flags: ['--trace-gc', ...flags],
      output: (text) => {
        said += text
      }
    })
    const running = await peer.start(scenario, upstream)
    await scenarioLoad(running, scenario, WARM_SECONDS)
    said = ''
    const load = (seconds: number) => scenarioLoad(running, scenario, seconds)
    const { requests } = await sampleOf(running.child.pid as number, SECONDS, load)
    await running.stop()
    const all = [...said.matchAll(COLLECTION)].map(([, kind, before, after, time]) => {
      return { kind, before: Number(before), after: Number(after), time: Number(time) }
    })
    let allocated = 0
    for (const [i, { before }] of all.entries()) allocated += Math.max(0, before - (all[i - 1]?.after ?? before))
    const carried = requests * megabytes
    // What was allocated before the first collection and after the last one is not seen.
    const seen = all.length < 2 ? '' : ((allocated / carried) * 1_024 * (all.length / (all.length - 1))).toFixed(1)
    rows.push([
      name,
      String(requests),
      seen,
      all.filter(({ kind }) => kind === 'Scavenge').length.toString(),
      all.filter(({ kind }) => kind !== 'Scavenge').length.toString(),
      ((all.reduce((sum, { time }) => sum + time, 0) / carried) * 1_000).toFixed(1)
    ])
  }
  table(['garbage', 'requests', 'KB for each MB', 'scavenges', 'mark-compacts', 'µs for each MB'], rows)
}
