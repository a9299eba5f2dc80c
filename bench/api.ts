import { loadavg } from 'node:os'
import { bulk } from './api/bulk.js'
import { documents } from './api/documents.js'
import { scale } from './api/scale.js'
import { storm } from './api/storm.js'
import { workers } from './api/workers.js'
import { argument } from './argument.js'

/**
 * What changes of the configuration cost, and what traffic notices of them.
 *
 * `npm run bench:api -- [--only scale,storm,bulk,documents,workers] [--resources 1000,10000,100000] [--writes N] [--storm N] [--rate N]
 * [--bulk N] [--sites 250,1000,5000] [--rules 100,1000] [--times N] [--main FILE] [--workers N]`. `workers` needs Node 24 and is left out
 * unless it is named. `documents` with `--workers` has threads that carry traffic.
 */
const only = argument('only', '')
const wanted = (name: string) => only === '' || only.split(',').includes(name)

console.log(
  `load of the machine before: ${loadavg()
    .map((load) => load.toFixed(1))
    .join(' ')}`
)
if (wanted('scale')) {
  const sizes = argument('resources', '1000,10000,100000').split(',').map(Number)
  const shapes = sizes.map((resources) => ({ resources, routesPerEdge: 1 }))
  await scale([...shapes, { resources: 1_000, routesPerEdge: 998 }], Number(argument('writes', '500')))
}
if (wanted('storm')) {
  const traffic = { rate: Number(argument('rate', '1000')), connections: 32 }
  await storm({ writes: Number(argument('storm', '10000')), writers: 4, resources: 1_000, traffic })
}
if (wanted('bulk')) {
  const main = argument('main', '')
  await bulk({ records: Number(argument('bulk', '100000')), ...(main === '' ? {} : { main }) })
}
if (wanted('documents')) {
  const numbers = (name: string, usual: string) => argument(name, usual).split(',').filter(Boolean).map(Number)
  const main = argument('main', '')
  await documents({
    sites: numbers('sites', '250,1000,5000'),
    rules: numbers('rules', '100,1000'),
    times: Number(argument('times', '5')),
    workers: Number(argument('workers', '0')),
    ...(main === '' ? {} : { main })
  })
}
if (only.split(',').includes('workers')) {
  const traffic = { rate: Number(argument('rate', '300')), connections: 8 }
  const [threads, writes] = [Number(argument('workers', '2')), Number(argument('writes', '500'))]
  await workers({ threads, writes, resources: 1_000, traffic })
}
