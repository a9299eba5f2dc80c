import { setTimeout as wait } from 'node:timers/promises'
import { ExitCode, giveHeapRoom, StopSignals } from '../../cli/process.js'
import { forKeeping, formatProblems, styleFor } from '../../cli/report.js'
import { systemClock } from '../../lib/clock.js'
import { CodedError } from '../../lib/errors.js'
import { packageVersion } from '../../lib/files.js'
import { formatAuthority } from '../../lib/host.js'
import { unpredictable } from '../../lib/id.js'
import { createNames, type Names } from '../../lib/names/names.js'
import { printable } from '../../lib/printable.js'
import type { UnitProblems } from '../../policy/problems.js'
import type { AgentPolicyRefused } from './agent-plane.js'
import { Agent, type AgentEvent } from './client/agent.js'
import { type AgentFlags, type AgentSetup, type NamedTunnel, readAgentSetup } from './command-setup.js'

/** Output of the agent's messages. */
export interface AgentOutput {
  readonly isTTY?: boolean
  write(text: string): unknown
}

/** Runs an agent until a signal or its server ends it; resolves with the exit code. */
export async function runAgent(
  flags: AgentFlags,
  environment: Readonly<Record<string, string | undefined>>,
  out: AgentOutput
): Promise<number> {
  giveHeapRoom()
  const shown: Shown = (problems) => formatProblems(forKeeping(problems, out), styleFor(out, environment))
  try {
    const setup = await readAgentSetup(flags, environment)
    const status = new StatusLine(out)
    const names = createNames({ resolver: setup.resolver, servers: [] }, systemClock)
    const { server, ...rest } = setup
    const named = setup.tunnels.map((tunnel) => ({ ...tunnel, target: { ...tunnel.target, lookup: names.forSockets } }))
    const { tunnels, stop } = await guarded(named, names, status, shown)
    const agent = new Agent({
      ...rest,
      server: { ...server, lookup: names.forSockets },
      tunnels,
      version: packageVersion(),
      clock: systemClock,
      random: Math.random,
      wait: sleep,
      report: (event) => status.show(printable(describe(event, setup)), isState(event))
    })
    const signals = new StopSignals(systemClock)
    void signals.next().then(() => agent.stop())
    try {
      await agent.run()
    } finally {
      signals.release()
      stop()
      names.close()
    }
    status.show('stopped', false)
    return ExitCode.ok
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    if (isRefusedPolicy(error)) {
      for (const line of shown(error.problems)) out.write(`${line}\n`)
      return ExitCode.usage
    }
    const whose = error.code === 'AGENT_SETUP' ? '' : 'the server rejected this agent: '
    out.write(`${printable(`${whose}${error.message}`)}\n`)
    return error.code === 'AGENT_SETUP' ? ExitCode.usage : ExitCode.failure
  }
}

/** Formats the errors of policies. */
type Shown = (problems: readonly UnitProblems[]) => readonly string[]

/** Adds the tunnels' policies in front of their targets. The policy engine is loaded only if needed. */
async function guarded(
  tunnels: readonly NamedTunnel[],
  names: Names,
  status: StatusLine,
  shown: Shown
): Promise<{ readonly tunnels: readonly NamedTunnel[]; stop(): void }> {
  if (tunnels.every(({ policy }) => policy === undefined)) return { tunnels, stop: () => undefined }
  const { AgentPlane } = await import('./agent-plane.js')
  const print = (line: string): void => status.show(printable(line), false)
  const plane = await AgentPlane.open(systemClock, unpredictable, names, print)
  try {
    const ready: NamedTunnel[] = []
    for (const tunnel of tunnels) {
      const { name, policy, target, endpoint } = tunnel
      if (policy === undefined) ready.push(tunnel)
      else {
        const forward = await plane.forward(
          { name, policy, target, tcp: endpoint?.proto === 'tcp' || endpoint?.proto === 'tls' },
          (line) => print(`${name}: ${line}`),
          (problems) => {
            for (const line of shown(problems)) status.show(line, false)
          }
        )
        ready.push({ ...tunnel, forward })
      }
    }
    return { tunnels: ready, stop: () => plane.stop() }
  } catch (error) {
    plane.stop()
    throw error
  }
}

/** The class of the error is loaded only with the policy engine. */
function isRefusedPolicy(error: CodedError): error is AgentPolicyRefused {
  return error.code === 'POLICY_REFUSED'
}

async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await wait(milliseconds, undefined, { signal })
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

function isState({ kind }: AgentEvent): boolean {
  return kind === 'connecting' || kind === 'waiting'
}

function describe(event: AgentEvent, { server }: AgentSetup): string {
  const at = formatAuthority(server.host, server.port)
  switch (event.kind) {
    case 'connecting':
      return `connecting to ${at}`
    case 'connected':
      return `connected to ${at}${event.account === '' ? '' : ` as ${event.account}`} (${event.sessionId})`
    case 'bound':
      return `${nameOf(event.tunnel)}: ${event.url || labelsOf(event.tunnel)} -> ${event.tunnel.forwardsTo}`
    case 'lost':
      return `connection lost: ${event.why}`
    case 'waiting':
      return `not connected (${event.why}); next attempt in ${(event.milliseconds / 1000).toFixed(1)} s`
    case 'tunnel-stopped':
      return `${nameOf(event.tunnel)}: ended by the server: ${event.why}`
    case 'unreachable':
      return `${nameOf(event.tunnel)}: ${event.tunnel.forwardsTo} cannot be reached: ${event.why}`
  }
}

function nameOf(tunnel: AgentEvent extends infer E ? (E extends { tunnel: infer T } ? T : never) : never): string {
  return (tunnel as NamedTunnel).name
}

function labelsOf({ labels = {} }: { readonly labels?: Readonly<Record<string, string>> | undefined }): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ')
}

/** On a terminal the state replaces itself in the last line; elsewhere everything is a line. */
class StatusLine {
  readonly #out: AgentOutput
  readonly #terminal: boolean
  #state = false

  constructor(out: AgentOutput) {
    this.#out = out
    this.#terminal = out.isTTY === true
  }

  show(text: string, state: boolean): void {
    const erase = this.#state ? '\r\u001b[2K' : ''
    this.#state = state && this.#terminal
    this.#out.write(`${erase}${text}${this.#state ? '' : '\n'}`)
  }
}
