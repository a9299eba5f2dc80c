import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { posting } from '../helpers/posting.js'
import { rawClient } from '../helpers/raw-client.js'
import { broken, comes, type Fault, type Outcome, seconds } from './fault.js'
import { Product } from './product.js'

const CONNECTIONS = 24
/** Requests that are under way when an error comes that nothing has caught. */
const UNDER_WAY = 8
/** Exchanges of each connection before the stop. */
const BEFORE = 10

/** Clients use their connections in a loop while the process is told to end. */
export const stopUnderPosts: Fault = {
  name: 'SIGTERM under a loop of POSTs',
  within: 60,
  async run(stage): Promise<Outcome> {
    let arrived = 0
    const upstream = createServer((request, response) => {
      arrived++
      request.resume().on('end', () => response.end())
    }).listen(0, '127.0.0.1')
    await once(upstream, 'listening')
    stage.teardown(() => {
      upstream.closeAllConnections()
      upstream.close()
    })
    const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
    const product = await Product.start(stage, { env: { SLUICE_UPSTREAM: url } })
    const peers = await Promise.all(Array.from({ length: CONNECTIONS }, () => rawClient(product.ports.traffic)))
    stage.teardown(() => {
      for (const { socket } of peers) socket.destroy()
    })
    let warm = 0
    let stop = Promise.resolve({ code: null as number | null, lasted: 0 })
    const ended = await Promise.all(
      peers.map((peer, i) =>
        posting(peer, i, (answered) => {
          if (answered === BEFORE && ++warm === CONNECTIONS) stop = product.stop()
        })
      )
    )
    const { code, lasted } = await stop
    const answered = ended.reduce((sum, one) => sum + one.answered, 0)
    const lost = ended.filter((one) => one.lost).length
    return {
      clients: `${answered} POSTs on ${CONNECTIONS} connections answered, each to its “Connection: close”`,
      operator: `exit ${code} after ${seconds(lasted)}`,
      lost: lost === 0 ? [] : [`${lost} POSTs of ${CONNECTIONS} connections`],
      broken: broken({ 'nothing is asked twice': arrived === answered, 'the stop is an ordinary one': code === 0 })
    }
  }
}

/** The main thread has an error that nothing catches while requests are under way. */
export const uncaughtError: Fault = {
  name: 'uncaught error',
  within: 60,
  async run(stage): Promise<Outcome> {
    const held: ServerResponse[] = []
    const upstream = createServer((_request, response) => void held.push(response)).listen(0, '127.0.0.1')
    await once(upstream, 'listening')
    stage.teardown(() => {
      upstream.closeAllConnections()
      upstream.close()
    })
    const failing = `process.on('SIGUSR2',()=>{throw new Error('of a part')})`
    const env = {
      SLUICE_UPSTREAM: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(failing)}`
    }
    const product = await Product.start(stage, { env })
    const answers = Array.from({ length: UNDER_WAY }, () =>
      product.visit('/').then(
        ({ text }) => text,
        ({ message }: Error) => message
      )
    )
    await comes(10_000, () => held.length === UNDER_WAY)
    const ended = once(product.child, 'exit')
    product.child.kill('SIGUSR2')
    const told = await product.told('uncaught error: the process exits')
    for (const response of held) response.end('answered')
    const answered = (await Promise.all(answers)).filter((text) => text === 'answered').length
    await ended
    return {
      clients: `${answered} of ${UNDER_WAY} requests that were under way were answered`,
      operator: `${told ?? 'log: nothing'}; exit ${product.child.exitCode}`,
      lost: answered === UNDER_WAY ? [] : [`${UNDER_WAY - answered} answers`],
      broken: broken({ 'the operator is told': told !== undefined, 'the exit code is 1': product.child.exitCode === 1 })
    }
  }
}
