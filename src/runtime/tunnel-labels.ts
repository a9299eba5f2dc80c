type Labels = Readonly<Record<string, string>>

/** A label whose name no record and no agent can have: its value is the id of an endpoint opened by an agent. */
export const ENDPOINT = ''

/** Do the labels of a tunnel unit lead to an endpoint of agents? */
export function isEndpoint(labels: Labels): boolean {
  return Object.hasOwn(labels, ENDPOINT)
}
