import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from './opened.js'

/**
 * What happens to a commit on its way to the server: it is lost with its connection; it arrives and its answer is lost;
 * or it arrives and the client's side breaks at once, while the server still works on it.
 */
export type CommitFate = 'pass' | 'lost' | 'answer lost' | 'cut behind'

export interface CuttingProxy {
  readonly port: number
  /** Of the next commit; `pass` again once that has met it. */
  fate: CommitFate
  /** Whoever is answered meanwhile hears nothing from then on, and never learns why. */
  silent: boolean
  /** Text that cuts everything, as `cut` does, when a client sends it; undefined: none does. */
  cutAt: string | undefined
  /** Ends each connection and takes none until `mend`. */
  cut(): void
  mend(): void
}

/** A TCP proxy that breaks connections where a test wants it. */
export async function startCuttingProxy(t: Test, target: number): Promise<CuttingProxy> {
  const clients = new Set<Socket>()
  let down = false
  const proxy = {
    fate: 'pass' as CommitFate,
    silent: false,
    cutAt: undefined as string | undefined,
    port: 0,
    cut,
    mend
  }
  const server = createServer((client) => {
    if (down) {
      client.destroy()
      return
    }
    clients.add(client)
    const upstream = connect(target, '127.0.0.1')
    let deaf = false
    let mute = false
    client.on('error', () => undefined)
    upstream.on('error', () => undefined)
    client.on('close', () => {
      clients.delete(client)
      if (!deaf) upstream.destroy()
    })
    upstream.on('close', () => client.destroy())
    upstream.on('data', (data) => {
      mute ||= proxy.silent
      if (deaf) client.destroy()
      else if (!mute) client.write(data)
    })
    client.on('data', (data) => {
      if (proxy.cutAt !== undefined && data.includes(proxy.cutAt)) return cut()
      const commit = proxy.fate !== 'pass' && data.includes('commit\0')
      if (!commit || proxy.fate !== 'lost') upstream.write(data)
      if (!commit) return
      deaf = proxy.fate !== 'lost'
      if (proxy.fate !== 'answer lost') client.destroy()
      proxy.fate = 'pass'
    })
  })
  function cut(): void {
    down = true
    for (const client of clients) client.destroy()
  }
  function mend(): void {
    down = false
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  proxy.port = (server.address() as AddressInfo).port
  t.teardown(async () => {
    cut()
    server.close()
    await once(server, 'close')
  })
  return proxy
}
