import { writeFileSync } from 'node:fs'
import { Registry } from 'prom-client'
import { runProgram } from '../../../src/cli/program.js'

/**
 * The product as its modules, not as the one file that is shipped, so that its library of metrics can be reached: writes
 * what it registers to the file that SURFACE_METRICS names. The text of /metrics does not show the labels of a metric without values.
 */

interface Registered {
  readonly name: string
  readonly help: string
  readonly labelNames?: readonly string[]
  readonly upperBounds?: readonly number[]
}

const registered: Registered[] = []
const { prototype } = Registry
const register = prototype.registerMetric

prototype.registerMetric = function (metric) {
  registered.push(metric as unknown as Registered)
  // A metric registers itself before it has its buckets.
  setImmediate(() => writeFileSync(String(process.env.SURFACE_METRICS), registered.map(lineOf).join('\n')))
  return register.call(this, metric)
}

function lineOf(metric: Registered): string {
  const { name, help, labelNames = [], upperBounds = [] } = metric
  const labels = labelNames.length === 0 ? '' : ` {${[...labelNames].join(', ')}}`
  const buckets = upperBounds.length === 0 ? '' : ` buckets ${upperBounds.join(' ')}`
  return `${name} ${metric.constructor.name.toLowerCase()}${labels}${buckets}: ${help}`
}

process.exitCode = await runProgram(process.argv.slice(2))
process.exit()
