import { Agent, request } from 'node:http'

/**
 * Posts as much to a receiver as events of traffic would: what the machine does for the receiver of a webhook slows requests
 * on the same cores, whoever sends. `poster URL BYTES_PER_SECOND`, until it is ended.
 */
const [url = '', rate = '0'] = process.argv.slice(2)
const PAUSE = 50
const body = Buffer.alloc(Math.round((Number(rate) * PAUSE) / 1_000), 'x')
const agent = new Agent({ keepAlive: true })
setInterval(() => {
  request(url, { method: 'POST', agent }, (response) => response.resume()).end(body)
}, PAUSE)
