import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import type { Test } from 'tap'

/** A network of containers: a bridge of this machine, and a namespace for each member. */
export interface Network {
  /** Address of this machine in the network. */
  readonly host: string
  /** Adds a member; returns the name of its namespace and its address. */
  join(name: string): { readonly namespace: string; readonly address: string }
}

/** Makes a network that ends with the test. */
export function makeNetwork(t: Test): Network {
  const id = process.pid % 10_000
  const bridge = `slu${id}`
  const prefix = `10.213.${id % 250}`
  const ip = (...words: string[]) => execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] })
  ip('link', 'add', 'name', bridge, 'type', 'bridge')
  t.teardown(() => ip('link', 'delete', bridge))
  ip('address', 'add', `${prefix}.1/24`, 'dev', bridge)
  ip('link', 'set', bridge, 'up')
  let members = 0
  return {
    host: `${prefix}.1`,
    join: (name) => {
      const number = ++members
      const [namespace, here] = [`${bridge}-${name}`, `${bridge}v${number}`]
      const address = `${prefix}.${number + 1}`
      ip('netns', 'add', namespace)
      t.teardown(() => ip('netns', 'delete', namespace))
      ip('link', 'add', here, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace)
      ip('link', 'set', here, 'master', bridge, 'up')
      ip('-n', namespace, 'address', 'add', `${address}/24`, 'dev', 'eth0')
      ip('-n', namespace, 'link', 'set', 'eth0', 'up')
      ip('-n', namespace, 'link', 'set', 'lo', 'up')
      return { namespace, address }
    }
  }
}

/** Forwards connections to an address, as a published port does; returns its own port. */
export async function publish(
  t: Test,
  from: string,
  port: number,
  to: { host: string; port: number }
): Promise<number> {
  const server: Server = createServer((client) => {
    const target = connect(to)
    for (const socket of [client, target])
      socket
        .once('error', () => undefined)
        .once('close', () => {
          client.destroy()
          target.destroy()
        })
    client.pipe(target).pipe(client)
  })
  server.listen(port, from)
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}
