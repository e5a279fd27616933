package tandem;

import com.alibaba.nacos.consistency.cp.RequestProcessor4CP;
import com.alibaba.nacos.core.code.ControllerMethodsCache;
import com.alibaba.nacos.core.distributed.ProtocolManager;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Paths;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Collection;
import java.util.List;
import javax.annotation.PostConstruct;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.ServletComponentScan;
import org.springframework.scheduling.annotation.EnableScheduling;

/**
 * A Nacos server for naming and configurations, as its modules' own main classes put it
 * together: without the console, which is not published. The configurations are in an
 * embedded database.
 */
@SpringBootApplication(
        scanBasePackages = {"com.alibaba.nacos", "tandem"},
        excludeName = {
            "org.springframework.boot.autoconfigure.security.servlet.SecurityAutoConfiguration",
            "org.springframework.boot.autoconfigure.security.servlet.UserDetailsServiceAutoConfiguration",
            "org.springframework.boot.autoconfigure.security.servlet.SecurityFilterAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.security.servlet.ManagementWebSecurityAutoConfiguration",
            "org.springframework.boot.autoconfigure.ldap.LdapAutoConfiguration",
            "org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration",
        })
@ServletComponentScan("com.alibaba.nacos")
@EnableScheduling
public class Server {
    @Autowired private ControllerMethodsCache methods;

    /** Tells the filters which methods serve which paths; else all answer 501. */
    @PostConstruct
    public void readControllers() {
        methods.initClassMethod("com.alibaba.nacos.core.controller");
        methods.initClassMethod("com.alibaba.nacos.naming.controllers");
        methods.initClassMethod("com.alibaba.nacos.config.server.controller");
    }

    @Autowired private ProtocolManager protocols;
    @Autowired private List<RequestProcessor4CP> processors;

    /**
     * Does what JRaftProtocol.addRequestProcessors does in Nacos, and is empty in
     * these jars. Without it nobody can change an instance's weight or disable it.
     */
    @PostConstruct
    public void addRequestProcessors() throws ReflectiveOperationException {
        Object protocol = protocols.getCpProtocol();
        Field server = protocol.getClass().getDeclaredField("raftServer");
        server.setAccessible(true);
        Method create = server.getType().getDeclaredMethod("createMultiRaftGroup", Collection.class);
        create.setAccessible(true);
        create.invoke(server.get(protocol), processors);
    }

    /**
     * The database is made here, which takes as long as it takes: Nacos's pool gives up
     * after some seconds, which is too early on a busy machine.
     */
    public static void main(String[] args) throws SQLException {
        String database = Paths.get(System.getProperty("nacos.home"), "data", "derby-data").toString();
        DriverManager.getConnection("jdbc:derby:" + database + ";create=true", "nacos", "nacos").close();
        SpringApplication.run(Server.class, args);
    }
}
