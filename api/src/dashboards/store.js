/**
 * What the api asks the database of saved dashboards. All writes are conditional: that of a client
 * which read what somebody has changed since is refused, and no two kinds of clocks meet in a row.
 */

/** @typedef {{ title?: string, series: { sensor: string, metric: string }[] }} Chart */
/** @typedef {{ name: string, range?: string, charts: Chart[] }} DashboardBody */

/**
 * @typedef {object} DashboardHead  One of a list.
 * @property {string} id
 * @property {string} name
 * @property {number} bytes  Of its body.
 * @property {number} changedMs
 */

/** @typedef {{ id: string, body: DashboardBody, changedMs: number }} Dashboard */

/** @param {string} keyspace */
function statements(keyspace) {
  const table = `${keyspace}.dashboard`
  return {
    all: `SELECT dashboard_id, name, bytes, changed FROM ${table}`,
    one: `SELECT dashboard_id, body, changed FROM ${table} WHERE dashboard_id = ?`,
    add: `INSERT INTO ${table} (dashboard_id, name, body, bytes, changed)
          VALUES (?, ?, ?, ?, ?) IF NOT EXISTS`,
    replace: `UPDATE ${table} SET name = ?, body = ?, bytes = ?, changed = ?
              WHERE dashboard_id = ? IF changed = ?`,
    remove: `DELETE FROM ${table} WHERE dashboard_id = ? IF EXISTS`,
  }
}

/**
 * @param {string} keyspace
 * @param {(query: string, parameters: unknown[]) =>
 *   Promise<import('cassandra-driver').types.Row[]>} ask
 */
export function dashboardQuestions(keyspace, ask) {
  const cql = statements(keyspace)
  /** @param {string} id  @returns {Promise<Dashboard | undefined>} */
  const dashboard = async (id) => {
    const [row] = await ask(cql.one, [id])
    if (!row?.body) return undefined
    return { id: String(row.dashboard_id), body: JSON.parse(row.body), changedMs: +row.changed }
  }
  return {
    dashboard,

    /** @returns {Promise<DashboardHead[]>} */
    async dashboards() {
      return (await ask(cql.all, [])).map((row) => ({
        id: String(row.dashboard_id),
        name: row.name,
        bytes: row.bytes,
        changedMs: +row.changed,
      }))
    },

    /** @param {Dashboard} added */
    async addDashboard({ id, body, changedMs }) {
      const text = JSON.stringify(body)
      await ask(cql.add, [id, body.name, text, Buffer.byteLength(text), changedMs])
    },

    /**
     * @param {Dashboard} wanted
     * @param {number} beforeMs  When what it replaces was changed.
     * @returns {Promise<boolean>}  Whether it was; another may have been faster.
     */
    async replaceDashboard({ id, body, changedMs }, beforeMs) {
      const text = JSON.stringify(body)
      const values = [body.name, text, Buffer.byteLength(text), changedMs]
      const [row] = await ask(cql.replace, [...values, id, beforeMs])
      if (row?.['[applied]'] === true) return true
      // A write whose answer was lost is tried again, and finds itself.
      const now = await dashboard(id)
      return now?.changedMs === changedMs && JSON.stringify(now.body) === text
    },

    /** @param {string} id */
    async removeDashboard(id) {
      await ask(cql.remove, [id])
    },
  }
}
