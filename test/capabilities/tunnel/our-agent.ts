import { setTimeout as wait } from 'node:timers/promises'
import { Agent } from '../../../src/capabilities/tunnel/client/agent.js'
import type { AgentTunnel } from '../../../src/capabilities/tunnel/client/visitors.js'
import { systemClock } from '../../../src/lib/clock.js'
import type { AgentKind } from './agent-suite.js'

/** The agent of this house. */
export const ourAgent: AgentKind = {
  name: 'our agent',
  async start(server, token, offer) {
    const target = { kind: 'tcp', host: '127.0.0.1', port: offer.target } as const
    const common = { target, forwardsTo: `127.0.0.1:${offer.target}` }
    const tunnel: AgentTunnel =
      'labels' in offer
        ? { ...common, labels: offer.labels }
        : {
            ...common,
            endpoint: {
              proto: offer.endpoint,
              ...(offer.at === undefined ? {} : { at: offer.at }),
              ...(offer.policy === undefined ? {} : { trafficPolicy: offer.policy })
            }
          }
    let stop: (why: string) => void = () => undefined
    const stopped = new Promise<string>((resolve) => {
      stop = resolve
    })
    return new Promise((resolve, reject) => {
      const agent = new Agent({
        server: { host: '127.0.0.1', port: server.port, ca: server.ca },
        token,
        tunnels: [tunnel],
        version: '1.2.3',
        clock: systemClock,
        random: Math.random,
        wait: async (milliseconds, signal) => {
          await wait(milliseconds / 100, undefined, { signal }).catch(() => undefined)
        },
        report: (event) => {
          if (event.kind === 'tunnel-stopped') stop(event.why)
          if (event.kind === 'bound') resolve({ id: event.id, url: event.url, stopped, close })
        }
      })
      const running = agent.run().catch(reject)
      const close = async () => {
        agent.stop()
        await running
      }
    })
  }
}
