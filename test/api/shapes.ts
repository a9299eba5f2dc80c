import Schema from 'typebox/schema'
import { describeGroup } from '../../src/api/define-route.js'
import { healthRoutes } from '../../src/api/health-routes.js'
import { serviceRoutes } from '../../src/api/service-routes.js'
import { sessionRoutes } from '../../src/api/session-routes.js'
import { serverCapabilities } from '../../src/capabilities/registry.js'

const groups = [
  ...(await serverCapabilities()).flatMap(({ routes }) => routes),
  ...serviceRoutes,
  sessionRoutes,
  healthRoutes({ metrics: true })
]

/** Schemas that answers refer to by their names. */
const components = { schemas: {}, parameters: {}, paths: {} }
for (const group of groups) describeGroup(group, components)

/** The answers that routes declare, by method and path. */
const declared = groups
  .flatMap(({ routes }) => routes)
  .map(({ method, path, shapes: [, answer] }) => ({
    method,
    path: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
    answer: answer === undefined ? undefined : ({ ...(answer as object), components } as Checked)
  }))

type Checked = object & Parameters<typeof Schema.Check>[0]

/** Fails when a successful answer has another shape than its route declares. */
export function mustHaveShape(method: string, url: string, json: unknown): void {
  // A dry run answers with what the write would do.
  if (/[?&]dry_run=true/.test(url)) return
  const path = url.replace(/\?.*$/, '')
  const route = declared.find((one) => one.method === method && one.path.test(path))
  if (route?.answer === undefined || '$ref' in route.answer || Schema.Check(route.answer, json)) return
  const [, errors] = Schema.Errors(route.answer, json)
  throw new TypeError(
    `${method} ${path} answers what its route does not declare: ${JSON.stringify(errors.slice(0, 3))}`
  )
}
