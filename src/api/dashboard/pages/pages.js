/**
 * The pages, in the order of the navigation: one line for each. A page is a module of its own, loaded when it is opened.
 * @type {readonly { id: string, title: string, load: () => Promise<{ default: (props: { path: string[], query: URLSearchParams }) => any }> }[]}
 */
export const pages = [
  { id: 'overview', title: 'Overview', load: () => import('./overview.js') },
  { id: 'traffic', title: 'Traffic', load: () => import('./traffic.js') },
  { id: 'routes', title: 'Routes', load: () => import('./routes.js') },
  { id: 'policies', title: 'Policies', load: () => import('./policies.js') },
  { id: 'limits', title: 'Limits', load: () => import('./limits.js') },
  { id: 'agents', title: 'Agents', load: () => import('./agents.js') },
  { id: 'certificates', title: 'Certificates', load: () => import('./certificates.js') },
  { id: 'events', title: 'Events', load: () => import('./events.js') },
  { id: 'history', title: 'History', load: () => import('./history.js') },
  { id: 'processes', title: 'Processes', load: () => import('./processes.js') }
]
