package tandem;

import com.alibaba.nacos.consistency.cp.RequestProcessor4CP;
import com.alibaba.nacos.core.code.ControllerMethodsCache;
import com.alibaba.nacos.core.distributed.ProtocolManager;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.List;
import javax.annotation.PostConstruct;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.web.servlet.ServletComponentScan;
import org.springframework.scheduling.annotation.EnableScheduling;

/**
 * A Nacos server for naming alone, as its module's own main class puts it together:
 * without the console, which is not published, and without the configuration,
 * whose database does not come up on a busy machine.
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

    public static void main(String[] args) {
        SpringApplication.run(Server.class, args);
    }
}
